# scripts/reproduce autoencoder_mnist
check_iterations=60
data/mnist/get.sh
once data/mnist/full/test_lmdb crema convert-mnist --overwrite data/mnist/full
train models/autoencoder_mnist/solver.prototxt
weights=$out/autoencoder_mnist_iter_65000.caffemodel
result crema test --model models/autoencoder_mnist/train_val.prototxt --weights "$weights" --iterations 100
crema extract-features "$weights" models/autoencoder_mnist/train_val.prototxt \
  data,reconstruction "$work/data.npy,$work/reconstruction.npy" 0 npy
result models/autoencoder_mnist/reconstructions.py "$work/data.npy" "$work/reconstruction.npy" "$out/reconstructions.png"
