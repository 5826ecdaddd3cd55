# scripts/reproduce lenet_fashion
check_iterations=60
folder=models/lenet_fashion full=data/fashion-mnist/full digits=models/lenet/lenet_iter_10000.caffemodel
if [[ $check == yes ]]; then digits_for $full; else data/fashion-mnist/get.sh; fi
once "$full/test_lmdb" crema convert-mnist --overwrite "$full"
train "$folder/solver.prototxt"

# One pass over Fashion-MNIST with LeNet's weights of MNIST and without them. Tests of both are in the log.
needs_model lenet $digits
train "$folder/scratch_solver.prototxt"
train "$folder/finetune_solver.prototxt" --weights $digits
result crema test --model models/lenet_fashion/finetune_train_val.prototxt \
  --weights "$out/lenet_fashion_scratch_iter_1000.caffemodel" --iterations 100
result crema test --model models/lenet_fashion/finetune_train_val.prototxt \
  --weights "$out/lenet_fashion_finetune_iter_1000.caffemodel" --iterations 100
result crema test --model models/lenet_fashion/train_val.prototxt --weights "$out/lenet_fashion_iter_15000.caffemodel" --iterations 100
