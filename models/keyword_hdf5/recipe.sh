# scripts/reproduce keyword_hdf5
# Needs a build with CREMA_HDF5.
# Needs the program espeak-ng.
check_iterations=60
folder=models/keyword_hdf5
if [[ $check == yes ]]; then
  # A reading by each voice.
  data/keywords/make.py "$out/words" --train 38 --test 1
  nets_with data/keywords/full "$out/words"
else
  # The set depends on the version of espeak-ng: it has no checksum that holds everywhere.
  once data/keywords/full/test.txt data/keywords/make.py
fi
train "$folder/solver.prototxt"
result crema test --model models/keyword_hdf5/train_val.prototxt --weights "$out/keyword_hdf5_iter_1600.caffemodel" --iterations 10 --confusion
