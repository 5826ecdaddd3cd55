# scripts/reproduce lenet
check_iterations=60
folder=models/lenet full=data/mnist/full
if [[ $check == yes ]]; then digits_for $full; else data/mnist/get.sh; fi
once "$full/test_lmdb" crema convert-mnist --overwrite "$full"
train "$folder/solver.prototxt"
result crema test --model models/lenet/train_val.prototxt --weights "$out/lenet_iter_10000.caffemodel" --iterations 100
