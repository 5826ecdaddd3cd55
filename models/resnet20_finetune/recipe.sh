# scripts/reproduce resnet20_finetune
# Needs a build with CREMA_OPENCV.
check_iterations=30
folder=models/resnet20_finetune full=data/fashion-mnist/full
weights=models/resnet20_cifar10/resnet20_cifar10_iter_14076.caffemodel
if [[ $check == yes ]]; then digits_for $full; else data/fashion-mnist/get.sh; fi
once "$full/test_lmdb" crema convert-mnist --overwrite "$full"
# The first ten images of each class.
once "$full/few" crema db export "$full/train_lmdb" "$full/few" 0:300
awk '++seen[$2] <= 10' "$full/few/list.txt" >"$work/few.txt" || true
(($(wc -l <"$work/few.txt") == 100)) ||
  die "$full/few/list.txt does not have ten images of each of ten classes; remove the folder $full/few and run this again"
cp "$work/few.txt" "$full/few.txt"
train "$folder/solver_scratch.prototxt"
needs_model resnet20_cifar10 $weights
train "$folder/solver.prototxt" --weights $weights
result crema test --model models/resnet20_finetune/train_val.prototxt --weights "$out/resnet20_scratch_iter_300.caffemodel" --iterations 100
result crema test --model models/resnet20_finetune/train_val.prototxt --weights "$out/resnet20_finetune_iter_300.caffemodel" --iterations 100
