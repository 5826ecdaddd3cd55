# scripts/reproduce ssd_shapes
# Needs a build with CREMA_OPENCV.
check_iterations=60
full=data/shapes/full
made $full 1675f67c076245e875954667f3659bb4add4a60b5834efadca0c4abb37da4310 data/shapes/make.py
once $full/train_lmdb crema convert-annotations --label_type=yolo --class_names=$full/names.txt \
  $full/ $full/train.txt $full/train_lmdb
once $full/test_lmdb crema convert-annotations --label_type=yolo --class_names=$full/names.txt \
  --name_size_file=$full/test_name_size.txt --write_label_map=$full/labelmap.prototxt \
  $full/ $full/test.txt $full/test_lmdb
train models/ssd_shapes/solver.prototxt
result crema test --model models/ssd_shapes/train_val.prototxt --weights "$out/ssd_shapes_iter_3000.caffemodel" \
  --iterations 10 --ap_version 11point --per_class
