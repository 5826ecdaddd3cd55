# scripts/reproduce mobilenet_v2_cifar10
check_iterations=60
full=data/cifar10/full
data/cifar10/get.sh
once $full/cifar10_test_lmdb crema convert-cifar --overwrite $full
train models/mobilenet_v2_cifar10/solver.prototxt
result crema test --model models/mobilenet_v2_cifar10/train_val.prototxt --weights "$out/mobilenet_v2_cifar10_iter_11730.caffemodel" --iterations 100
