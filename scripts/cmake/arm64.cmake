# For -DCMAKE_TOOLCHAIN_FILE: compiles for 64-bit ARM by Debian's cross compiler, with headers and libraries of the folder
# CREMA_SYSROOT alone, which scripts/arm64 fills, and runs programs of the build under qemu-user.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES CREMA_SYSROOT)
set(CMAKE_SYSROOT "${CREMA_SYSROOT}")

# Programs such as protoc are those of this machine.
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_SYSROOT_DIR} "${CREMA_SYSROOT}")
set(ENV{PKG_CONFIG_LIBDIR} "${CREMA_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${CREMA_SYSROOT}/usr/share/pkgconfig")

# The loader and the C library are those of the folder.
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static -L "${CREMA_SYSROOT}")
