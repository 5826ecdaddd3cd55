# scripts/reproduce conv_autoencoder_mnist
check_iterations=60
folder=models/conv_autoencoder_mnist full=data/mnist/full
if [[ $check == yes ]]; then digits_for $full; else data/mnist/get.sh; fi
once "$full/test_lmdb" crema convert-mnist --overwrite "$full"
train "$folder/solver.prototxt"
weights=$out/conv_autoencoder_mnist_iter_3000.caffemodel
result crema test --model models/conv_autoencoder_mnist/train_val.prototxt --weights "$weights" --iterations 100
crema extract-features "$weights" models/conv_autoencoder_mnist/train_val.prototxt \
  data,reconstruction "$work/data.npy,$work/reconstruction.npy" 0 npy
result models/autoencoder_mnist/reconstructions.py "$work/data.npy" "$work/reconstruction.npy" "$out/reconstructions.png"
