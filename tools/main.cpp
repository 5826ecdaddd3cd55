// crema: trains, tests, times and describes nets, and makes databases. One file a command.
#include "tools/program.hpp"

int main(int argc, char** argv) { return crema::tools::run_program(argc, argv); }
