# cmake --install: headers, library, find_package(Crema), crema.pc, models.
