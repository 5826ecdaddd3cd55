# scripts/reproduce resnet20_cifar10
check_iterations=10
full=data/cifar10/full
data/cifar10/get.sh
once $full/cifar10_test_lmdb crema convert-cifar --overwrite $full
train models/resnet20_cifar10/solver.prototxt
result crema test --model models/resnet20_cifar10/train_val.prototxt --weights "$out/resnet20_cifar10_iter_14076.caffemodel" --iterations 100
