# scripts/reproduce cartpole_dqn
check_iterations=3000
folder=models/cartpole_dqn
iterations=$(sed -n 's/^max_iter: //p' $folder/solver.prototxt)
[[ $check == no ]] || iterations=$check_iterations
build $folder
if ! is_trained $folder/solver.prototxt; then
  solver_for_output $folder/solver.prototxt >"$work/solver.prototxt"
  run "$built" train "$work/solver.prototxt" $folder/deploy.prototxt "$seed"
fi
play=("$built" play "$folder/deploy.prototxt" "$out/cartpole_dqn_iter_$iterations.caffemodel")
if [[ $check == yes ]]; then
  # Random actions reach 22 steps.
  "${play[@]}" | awk '{ print; exit !($NF > 50) }' || die "episodes are too short after $iterations updates"
else
  result "${play[@]}"
fi
