# scripts/reproduce digits_unet
check_iterations=15
folder=models/digits_unet scenes=data/digit_scenes/full
if [[ $check == yes ]]; then
  # A few scenes of the digits that ship, and the net with their path.
  scenes=$out/scenes
  data/digit_scenes/make.py "$scenes" --mnist data/mnist/mini --train 64 --test 25
  mkdir "$out/net"
  for file in $folder/*.prototxt; do
    sed "s#data/digit_scenes/full#$scenes#g; s#\"$folder/#\"$out/net/#" "$file" >"$out/net/${file##*/}"
  done
  folder=$out/net
else
  data/mnist/get.sh
  once $scenes/test.txt data/digit_scenes/make.py
fi
train "$folder/solver.prototxt"
result crema test --model models/digits_unet/train_val.prototxt --weights "$out/digits_unet_iter_4500.caffemodel" \
  --iterations 20 --confusion
