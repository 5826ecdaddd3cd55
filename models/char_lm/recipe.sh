# scripts/reproduce char_lm
# Needs a build with CREMA_OPENCV and CREMA_LIBARCHIVE.
check_iterations=30
folder=models/char_lm
if [[ $check == yes ]]; then
  # Pages of the repository, in batches of 8 sequences.
  cat README.md models/README.md data/README.md scripts/README.md >"$out/pages.txt"
  data/text/make.py "$out/pages.txt" "$out/text" --streams 8
  characters=$(wc -c <"$out/text/characters.txt")
  nets_with data/text/full "$out/text" "s/batch_size: [0-9]*/batch_size: 8/; s/\(input_dim\|num_output\): 63/\1: $characters/"
else
  data/text/get.sh
  made data/text/full 392906afcd35620f56564d4b35edfea35db3e311cca4a5718f1534f5f41ca328 data/text/make.py
fi
train "$folder/solver.prototxt"
train "$folder/gru_solver.prototxt"
train "$folder/attention_solver.prototxt"
result crema test --model models/char_lm/train_val.prototxt --weights "$out/char_lm_lstm_iter_1000.caffemodel" --iterations 51
result crema test --model models/char_lm/gru_train_val.prototxt --weights "$out/char_lm_gru_iter_1000.caffemodel" --iterations 51
result crema test --model models/char_lm/attention_train_val.prototxt --weights "$out/char_lm_attention_iter_2000.caffemodel" \
  --iterations 51
if [[ $check == no ]]; then
  build models/char_lm/generate
  result "$built" models/char_lm/deploy.prototxt "$out/char_lm_lstm_iter_1000.caffemodel" data/text/full/characters.txt \
    --start "And the king" --length 400 --temperature 0.7
fi
