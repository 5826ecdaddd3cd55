# scripts/reproduce char_lm
check_iterations=30
data/text/get.sh
once data/text/full/test.tar data/text/make.py
train models/char_lm/solver.prototxt
train models/char_lm/gru_solver.prototxt
train models/char_lm/attention_solver.prototxt
result crema test --model models/char_lm/train_val.prototxt --weights "$out/char_lm_lstm_iter_1000.caffemodel" --iterations 51
result crema test --model models/char_lm/gru_train_val.prototxt --weights "$out/char_lm_gru_iter_1000.caffemodel" --iterations 51
result crema test --model models/char_lm/attention_train_val.prototxt --weights "$out/char_lm_attention_iter_2000.caffemodel" \
  --iterations 51
build models/char_lm/generate
result "$built" models/char_lm/deploy.prototxt "$out/char_lm_lstm_iter_1000.caffemodel" data/text/full/characters.txt \
  --start "And the king" --length 400 --temperature 0.7
