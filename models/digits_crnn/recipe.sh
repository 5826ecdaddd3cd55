# scripts/reproduce digits_crnn
check_iterations=25
folder=models/digits_crnn lines=data/digit_lines/full
if [[ $check == yes ]]; then
  # A few lines of the digits that ship, and the net with their path.
  lines=$out/lines
  data/digit_lines/make.py "$lines" --mnist data/mnist/mini --train 320 --test 50
  mkdir "$out/net"
  for file in $folder/*.prototxt; do
    sed "s#data/digit_lines/full#$lines#; s#\"$folder/#\"$out/net/#" "$file" >"$out/net/${file##*/}"
  done
  folder=$out/net
else
  data/mnist/get.sh
  once $lines/test.tar data/digit_lines/make.py
fi
train "$folder/solver.prototxt"
result crema test --model models/digits_crnn/train_val.prototxt --weights "$out/digits_crnn_iter_6000.caffemodel" --iterations 40
