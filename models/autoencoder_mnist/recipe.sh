# scripts/reproduce autoencoder_mnist
check_iterations=60
folder=models/autoencoder_mnist full=data/mnist/full
if [[ $check == yes ]]; then digits_for $full; else data/mnist/get.sh; fi
once "$full/test_lmdb" crema convert-mnist --overwrite "$full"
train "$folder/solver.prototxt"
weights=$out/autoencoder_mnist_iter_65000.caffemodel
result crema test --model models/autoencoder_mnist/train_val.prototxt --weights "$weights" --iterations 100
crema extract-features "$weights" models/autoencoder_mnist/train_val.prototxt \
  data,reconstruction "$work/data.npy,$work/reconstruction.npy" 0 npy
result models/autoencoder_mnist/reconstructions.py "$work/data.npy" "$work/reconstruction.npy" "$out/reconstructions.png"
