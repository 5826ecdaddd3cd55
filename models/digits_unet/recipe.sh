# scripts/reproduce digits_unet
# Needs a build with CREMA_OPENCV.
check_iterations=15
folder=models/digits_unet scenes=data/digit_scenes/full
if [[ $check == yes ]]; then
  # A few scenes of the digits that ship.
  scenes=$out/scenes
  data/digit_scenes/make.py "$scenes" --mnist data/mnist/mini --train 64 --test 25
  nets_with data/digit_scenes/full "$scenes"
else
  data/mnist/get.sh
  made $scenes 0ece2637a6e20c583bb75a29fe8ae939c9fea57d5cb8b6758a799d1534727e49 \
    data/digit_scenes/make.py --mnist data/mnist/full
fi
train "$folder/solver.prototxt"
result crema test --model models/digits_unet/train_val.prototxt --weights "$out/digits_unet_iter_6000.caffemodel" \
  --iterations 20 --confusion
