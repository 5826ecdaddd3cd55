# scripts/reproduce keyword_hdf5
# Needs a build with CREMA_HDF5.
# Needs the program espeak-ng.
check_iterations=60
once data/keywords/full/test.txt data/keywords/make.py
train models/keyword_hdf5/solver.prototxt
result crema test --model models/keyword_hdf5/train_val.prototxt --weights "$out/keyword_hdf5_iter_1600.caffemodel" --iterations 10 --confusion
