# scripts/reproduce siamese_mnist
check_iterations=200
folder=models/siamese_mnist full=data/mnist/full
if [[ $check == yes ]]; then digits_for $full; else data/mnist/get.sh; fi
once "$full/test_lmdb" crema convert-mnist --overwrite "$full"
train "$folder/solver.prototxt"
features() {
  crema extract-features --stage="$1" "$out/siamese_mnist_iter_6000.caffemodel" \
    models/siamese_mnist/features.prototxt feat,label "$work/$1.npy,$work/$1_labels.npy" 0 npy
}
features train
features test
result models/siamese_mnist/nearest.py "$work/train.npy" "$work/train_labels.npy" "$work/test.npy" "$work/test_labels.npy"
