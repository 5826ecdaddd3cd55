#!/usr/bin/env bash
# Completion and manual pages hold what `crema help` says: each command and each of its flags. In bash, words are completed;
# zsh and fish read their scripts where they are installed.
#   completion_test.sh SOURCE_DIR SHARED_DIR   (CREMA_BUILD_DIR names the build)
set -euo pipefail
crema=$CREMA_BUILD_DIR/bin/crema
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
  echo "$*"
  exit 1
}

for shell in bash zsh fish; do
  "$crema" completion $shell >"$work/$shell"
  if command -v $shell >/dev/null; then
    $shell -n "$work/$shell" || fail "$shell does not read its script"
  else
    echo "$shell is not installed: its script is not read"
  fi
done
for words in "" tcsh "bash zsh"; do
  # shellcheck disable=SC2086  # words are meant
  ! "$crema" completion $words >"$work/said" 2>&1 || fail "completion takes '$words'"
  grep -q 'bash, zsh or fish' "$work/said" || fail "completion says of '$words': $(<"$work/said")"
done

# completed WORD...: what may stand in place of the last word, in a line.
# shellcheck source=/dev/null
. "$work/bash"
completed() {
  COMP_WORDS=("$@")
  COMP_CWORD=$(($# - 1))
  _crema 2>/dev/null
  echo "${COMPREPLY[*]}"
}
expect() {
  local expected=$1 got
  shift
  got=$(completed "$@")
  [[ $got == "$expected" ]] || fail "'$*' is completed to '$got' and not to '$expected'"
}
cd "$work"
mkdir nets
touch 'nets/a net.prototxt' nets/solver.prototxt
expect train crema tr
expect "merge-bn" crema help me
expect "--solver" crema train --so
expect "--memory_budget" crema train --memory-
expect "--no_tune" crema train --no_t
expect "snapshot stop" crema train --sigint_effect s
expect "snapshot stop" crema train --sigint-effect s
expect nets crema classify --save_images ""
expect "solver" crema help solv
expect "Softmax SoftmaxWithLoss SoftmaxWithLossOHEM" crema help Softm
expect "TRAIN TEST" crema time --phase = T  # as bash takes --phase=T apart
expect "TRAIN TEST" crema time --phase =
expect "nets/solver.prototxt" crema train --solver nets/s
expect "nets/a net.prototxt" crema draw nets/a
expect "" crema train --threads n
expect "Softmax SoftmaxWithLoss SoftmaxWithLossOHEM" crema layers Softm
expect "bash zsh fish" crema completion ""

"$crema" manual --output "$work/man" >"$work/pages"
[[ $(sort "$work/pages") == "$(ls "$work/man")" ]] || fail "the names that manual prints are not those of its pages"
mapfile -t commands < <(COLUMNS=200 "$crema" help | grep -v "^  help " | sed -n 's/^  \([a-z][a-z-]*\)  .*/\1/p')
((${#commands[@]} > 20)) || fail "help lists ${#commands[@]} commands"
declare -A words  # that are offered behind a flag
while read -r flag offered; do
  words[$flag]=$offered
done < <(sed -n "s/^    --\([a-z_]*\)) words='\(.*\)' ;;$/\1 \2/p" "$work/bash")
((${#words[@]} > 10)) || fail "bash knows the values of ${#words[@]} flags"
known=" $(completed crema "") "
listed=$(sed 's/\\-/-/g' "$work/man/crema.1")
fish=$(<"$work/fish")
for command in "${commands[@]}"; do
  [[ $known == *" $command "* ]] || fail "bash does not know $command"
  [[ $fish == *"-n __fish_use_subcommand -a $command -d "* ]] || fail "fish does not know $command"
  zsh=$(sed -n "/^    $command)\$/,/;;/p" "$work/zsh")
  [[ -n $zsh ]] || fail "zsh does not know $command"
  [[ $listed == *".BR crema-$command (1)"* ]] || fail "crema(1) does not name $command"
  [[ -s $work/man/crema-$command.1 ]] || fail "$command has no page"
  page=$(sed 's/\\f[BIR]//g; s/\\-/-/g' "$work/man/crema-$command.1")
  flags=" $(completed crema "$command" --) "
  while read -r flag rest; do
    [[ $flags == *" --$flag "* ]] || fail "bash does not know --$flag of $command"
    [[ $zsh == *"'--$flag"[=[]* ]] || fail "zsh does not know --$flag of $command"
    [[ $fish == *"from $command' -l $flag "* ]] || fail "fish does not know --$flag of $command"
    [[ $page == *$'\n'"--$flag"[=$'\n']* ]] || fail "the page of $command does not have --$flag"
    for word in ${words[$flag]-}; do
      [[ $rest =~ (^|[^a-z])$word($|[^a-z]) ]] || fail "--$flag $word is completed, but not in the help of $command: $rest"
    done
  done < <(COLUMNS=2000 "$crema" help "$command" | sed -n 's/^  --\([a-z_]*\)[= ]\(.*\)/\1 \2/p')
done

if command -v fish >/dev/null; then
  got=$(fish --no-config -c "source '$work/fish'; complete -C 'crema tr'; complete -C 'crema train --sol'")
  [[ $got == "train"*$'\n'"--solver"* ]] || fail "fish completes to '$got'"
fi
if command -v groff >/dev/null; then
  said=$(groff -K utf8 -man -Tutf8 -w char -w escape -w mac -z "$work"/man/crema*.1 2>&1) || fail "groff: $said"
  [[ -z $said ]] || fail "$said"
else
  echo "groff is not installed: the pages are not read"
fi
echo "${#commands[@]} commands"
