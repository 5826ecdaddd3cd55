// How long OpenMP's threads spin while they wait for each other.
#pragma once

namespace crema::tools {

/// Lets threads that wait spin for some 50 to 150 us before they sleep, unless the environment sets
/// GOMP_SPINCOUNT or OMP_WAIT_POLICY. The limit of GCC's OpenMP, libgomp, is 3 ms and more: longer
/// than most loops of a net. If other programs use the machine, such threads take the processors
/// from those that they wait for.
///
/// libgomp asks getenv() for the limit before main(). The program has a getenv() of its own, which
/// answers with the limit. Where libgomp has not asked it, as where it was loaded with a linker of
/// another kind, this starts the program anew with the same arguments and the limit in the
/// environment. It returns if the limit is set already, with another OpenMP, if the dynamic loader
/// was started with the program as an argument, and if this fails. Tools that do not follow a new
/// start, such as valgrind, need GOMP_SPINCOUNT=3000 in the environment.
void limit_spinning(char** argv);

}  // namespace crema::tools
