# scripts/reproduce mlp_mnist
check_iterations=60
data/mnist/get.sh
once data/mnist/full/test_lmdb crema convert-mnist --overwrite data/mnist/full
train models/mlp_mnist/solver.prototxt
result crema test --model models/mlp_mnist/train_val.prototxt --weights "$out/mlp_mnist_iter_6000.caffemodel" --iterations 100
