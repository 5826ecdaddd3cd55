# scripts/reproduce cifar10_quick
check_iterations=60
full=data/cifar10/full
data/cifar10/get.sh
once $full/cifar10_test_lmdb crema convert-cifar --overwrite $full
once $full/mean.binaryproto crema compute-image-mean $full/cifar10_train_lmdb $full/mean.binaryproto
train models/cifar10_quick/solver.prototxt
train models/cifar10_quick/solver_lr1.prototxt --snapshot "$out/cifar10_quick_iter_4000.solverstate"
result crema test --model models/cifar10_quick/train_test.prototxt --weights "$out/cifar10_quick_iter_5000.caffemodel" --iterations 100
