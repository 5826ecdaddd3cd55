# scripts/reproduce lenet_fashion
check_iterations=60
full=data/fashion-mnist/full
data/fashion-mnist/get.sh
once $full/test_lmdb crema convert-mnist --overwrite $full
train models/lenet_fashion/solver.prototxt

# LeNet's weights of MNIST, and one pass over Fashion-MNIST with and without them. Tests of both are in the log.
data/mnist/get.sh
once data/mnist/full/test_lmdb crema convert-mnist --overwrite data/mnist/full
digits=models/lenet/lenet_iter_10000.caffemodel
once $digits crema train --solver models/lenet/solver.prototxt --seed 1 --threads "$threads"
finetune() {
  train models/lenet_fashion/finetune_solver.prototxt "$@"
  result crema test --model models/lenet_fashion/finetune_train_val.prototxt \
    --weights "$out/lenet_fashion_finetune_iter_1000.caffemodel" --iterations 100
}
finetune
finetune --weights $digits
result crema test --model models/lenet_fashion/train_val.prototxt --weights "$out/lenet_fashion_iter_15000.caffemodel" --iterations 100
