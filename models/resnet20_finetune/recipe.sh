# scripts/reproduce resnet20_finetune
check_iterations=30
full=data/fashion-mnist/full
weights=models/resnet20_cifar10/resnet20_cifar10_iter_14076.caffemodel
data/fashion-mnist/get.sh
once $full/test_lmdb crema convert-mnist --overwrite $full
# The first ten images of each class.
once $full/few crema db export $full/train_lmdb $full/few 0:300
awk '++seen[$2] <= 10' $full/few/list.txt >$full/few.txt
train models/resnet20_finetune/solver_scratch.prototxt
once $weights scripts/reproduce resnet20_cifar10 --threads "$threads"
train models/resnet20_finetune/solver.prototxt --weights $weights
result crema test --model models/resnet20_finetune/train_val.prototxt --weights "$out/resnet20_scratch_iter_300.caffemodel" --iterations 100
result crema test --model models/resnet20_finetune/train_val.prototxt --weights "$out/resnet20_finetune_iter_300.caffemodel" --iterations 100
