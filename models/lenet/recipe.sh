# scripts/reproduce lenet
check_iterations=60
data/mnist/get.sh
once data/mnist/full/test_lmdb crema convert-mnist --overwrite data/mnist/full
train models/lenet/solver.prototxt
result crema test --model models/lenet/train_val.prototxt --weights "$out/lenet_iter_10000.caffemodel" --iterations 100
