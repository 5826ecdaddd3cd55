# scripts/reproduce digits_crnn
# Needs a build with CREMA_OPENCV and CREMA_LIBARCHIVE.
check_iterations=25
folder=models/digits_crnn lines=data/digit_lines/full
if [[ $check == yes ]]; then
  # A few lines of the digits that ship.
  lines=$out/lines
  data/digit_lines/make.py "$lines" --mnist data/mnist/mini --train 320 --test 50
  nets_with data/digit_lines/full "$lines"
else
  data/mnist/get.sh
  made $lines e4f6b12c44fbdaaa269e95adfff3dab388cb6c0d0e6c9acd58340c6c40c54d72 \
    data/digit_lines/make.py --mnist data/mnist/full
fi
train "$folder/solver.prototxt"
result crema test --model models/digits_crnn/train_val.prototxt --weights "$out/digits_crnn_iter_9000.caffemodel" --iterations 40
