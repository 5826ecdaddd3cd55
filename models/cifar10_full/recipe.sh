# scripts/reproduce cifar10_full
check_iterations=200
full=data/cifar10/full
data/cifar10/get.sh
once $full/cifar10_test_lmdb crema convert-cifar --overwrite $full
once $full/mean.binaryproto crema compute-image-mean $full/cifar10_train_lmdb $full/mean.binaryproto
train models/cifar10_full/solver.prototxt
train models/cifar10_full/solver_lr1.prototxt --snapshot "$out/cifar10_full_iter_60000.solverstate"
train models/cifar10_full/solver_lr2.prototxt --snapshot "$out/cifar10_full_iter_65000.solverstate"
result crema test --model models/cifar10_full/train_val.prototxt --weights "$out/cifar10_full_iter_70000.caffemodel" --iterations 100
