# scripts/reproduce digits_ssd
# Needs a build with CREMA_OPENCV.
check_iterations=15
folder=models/digits_ssd scenes=data/digit_scenes/full
if [[ $check == yes ]]; then
  # A few scenes of the digits that ship.
  scenes=$out/scenes
  data/digit_scenes/make.py "$scenes" --mnist data/mnist/mini --train 128 --test 25
  nets_with data/digit_scenes/full "$scenes"
else
  data/mnist/get.sh
  made $scenes 0ece2637a6e20c583bb75a29fe8ae939c9fea57d5cb8b6758a799d1534727e49 \
    data/digit_scenes/make.py --mnist data/mnist/full
fi
once "$scenes/train_lmdb" crema convert-annotations --label_type=yolo --class_names="$scenes/names.txt" \
  "$scenes/" "$scenes/train.txt" "$scenes/train_lmdb"
once "$scenes/test_lmdb" crema convert-annotations --label_type=yolo --class_names="$scenes/names.txt" \
  --name_size_file="$scenes/test_name_size.txt" --write_label_map="$scenes/labelmap.prototxt" \
  "$scenes/" "$scenes/test.txt" "$scenes/test_lmdb"
train "$folder/solver.prototxt"
result crema test --model models/digits_ssd/train_val.prototxt --weights "$out/digits_ssd_iter_1875.caffemodel" \
  --iterations 20 --per_class
