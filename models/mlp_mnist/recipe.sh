# scripts/reproduce mlp_mnist
check_iterations=60
folder=models/mlp_mnist full=data/mnist/full
if [[ $check == yes ]]; then digits_for $full; else data/mnist/get.sh; fi
once "$full/test_lmdb" crema convert-mnist --overwrite "$full"
train "$folder/solver.prototxt"
result crema test --model models/mlp_mnist/train_val.prototxt --weights "$out/mlp_mnist_iter_6000.caffemodel" --iterations 100
