// Learns to balance a pole on a cart by deep Q-learning, and shows what was learned:
//
//   cartpole_dqn train solver.prototxt deploy.prototxt [seed]
//   cartpole_dqn play deploy.prototxt weights.caffemodel
//
// The solver's net learns Q(state, action), the discounted reward that follows an action. It has no
// data layer: this program makes the data by acting, fills the net's inputs and calls
// Solver::step(1) for each update. Two more nets compute Q in between: `actor` reads the weights of
// the solver's net, for one state at a time; `target` has a copy, which is renewed every 50
// updates.
//
// V. Mnih et al., "Human-level control through deep reinforcement learning", Nature 518, 2015.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include "crema/crema.hpp"
#include "crema/random.hpp"

namespace {

constexpr int kLongest = 500;         // steps of an episode
constexpr int kWarmUp = 1000;         // random steps before the first update
constexpr int kStepsPerUpdate = 4;    // afterwards
constexpr int kExploration = 5000;    // updates in which the share of random actions falls from 1
constexpr float kLeastRandom = .05f;  // to this
constexpr float kDiscount = .99f;
constexpr int kLookAhead = 5;        // steps whose rewards are seen; Q estimates those behind them
constexpr int kTargetInterval = 50;  // updates between two copies to the target net

using State = std::array<float, 4>;  // position (m), speed, angle from upright (rad), its speed

/// The cart-pole of A. Barto, R. Sutton, C. Anderson, "Neuronlike adaptive elements that can solve
/// difficult learning control problems", IEEE Transactions on Systems, Man, and Cybernetics 13,
/// 1983, without friction, in the form that is known as CartPole-v1.
class CartPole {
 public:
  explicit CartPole(crema::Random& random) {
    for (double* value : {&x_, &speed_, &angle_, &turn_}) *value = random.uniform(-0.05, 0.05);
  }
  State state() const {
    return {static_cast<float>(x_), static_cast<float>(speed_), static_cast<float>(angle_),
            static_cast<float>(turn_)};
  }
  /// Pushes the cart to the left (action 0) or to the right (1) for 0.02 s. Returns false if the
  /// pole fell or the cart left the track.
  bool step(int action) {
    constexpr double gravity = 9.8, pole = 0.1, cart_and_pole = 1.1;  // m/s^2, kg
    constexpr double half_length = 0.5, seconds = 0.02;               // m, s
    const double force = action == 1 ? 10 : -10;                      // N
    const double sine = std::sin(angle_), cosine = std::cos(angle_);
    const double push = (force + pole * half_length * turn_ * turn_ * sine) / cart_and_pole;
    const double turning = (gravity * sine - cosine * push) /
                           (half_length * (4.0 / 3.0 - pole * cosine * cosine / cart_and_pole));
    x_ += seconds * speed_;
    speed_ += seconds * (push - pole * half_length * turning * cosine / cart_and_pole);
    angle_ += seconds * turn_;
    turn_ += seconds * turning;
    return std::abs(x_) <= 2.4 && std::abs(angle_) <= 12 * std::numbers::pi / 180;
  }

 private:
  double x_, speed_, angle_, turn_;
};

/// What an action led to. `stands`: the pole stands after it. `last`: it ended an episode.
struct Step {
  State before, after;
  int action;
  bool stands, last;
};

/// The remembered steps in an update: the batch of the solver's net. Error if its inputs have other
/// columns than learn() writes.
int64_t batch_of(crema::Net& net) {
  const int64_t batch = net.input("state").shape().dim_or_1(0);
  for (const auto& [name, columns] : {std::pair{"state", 4}, {"taken", 2}, {"believed", 2}}) {
    const crema::Shape& shape = net.input(name).shape();
    if (shape != crema::Shape{batch, columns})
      throw crema::Error("input '", name, "' is ", shape.str(), "; make it ", batch, "x", columns);
  }
  return batch;
}

/// The action with the greater Q, by a net with an input of one state.
int best_action(crema::Net& net, const State& state) {
  std::ranges::copy(state, net.input("state").changing<float>().data());
  net.forward();
  const crema::Tensor output = net.output("q");  // (1, 2)
  const auto q = output.values<float>();
  return static_cast<int>(std::ranges::max_element(q) - q.begin());
}

/// The mean return of episodes in which every action is the best one by the net: the number of
/// steps. Each seed has starts of its own.
double play(crema::Net& net, int episodes, uint64_t seed) {
  crema::Random random(seed, crema::stream_id("play"));
  int steps = 0;
  for (int episode = 0; episode < episodes; ++episode) {
    CartPole game(random);
    bool stands = true;
    for (int i = 0; stands && i < kLongest; ++i, ++steps)
      stands = game.step(best_action(net, game.state()));
  }
  return static_cast<double>(steps) / episodes;
}

/// One update of the solver's net, from a batch of remembered steps. The reward is -1 when the pole
/// falls and else 0, as in 1983. What is believed of Q(state, action) is the discounted reward of
/// the kLookAhead steps from there on, and behind them the greater Q of the target net.
void learn(crema::Solver& solver, crema::Net& target, const std::vector<Step>& memory,
           crema::Random& random) {
  const int64_t batch = target.input("state").shape()[0];
  const auto after = target.input("state").changing<float>();              // (batch, 4)
  const auto state = solver.net().input("state").changing<float>();        // (batch, 4)
  const auto taken = solver.net().input("taken").changing<float>();        // (batch, 2)
  const auto believed = solver.net().input("believed").changing<float>();  // (batch, 2)
  std::fill_n(taken.data(), 2 * batch, 0.0f);
  std::vector<float> discounts(static_cast<size_t>(batch));
  std::vector<bool> stands(static_cast<size_t>(batch));
  for (int64_t i = 0; i < batch; ++i) {
    const size_t first = random.below(memory.size());
    size_t last = first;
    while (!memory[last].last && last + 1 < memory.size() && last + 1 < first + kLookAhead) ++last;
    discounts[i] = std::pow(kDiscount, static_cast<float>(last - first));
    stands[i] = memory[last].stands;
    std::ranges::copy(memory[first].before, state + 4 * i);
    std::ranges::copy(memory[last].after, after + 4 * i);
    taken[2 * i + memory[first].action] = 1;
  }
  target.forward();
  const crema::Tensor output = target.output("q");  // (batch, 2)
  const auto q = output.values<float>();
  for (int64_t i = 0; i < 2 * batch; ++i) {
    // No Q is above 0: a bound that keeps errors from growing as Q is learned from Q. An episode
    // that was cut off at kLongest would have gone on, so its last step is as any other.
    const float behind = std::min(0.0f, std::max(q[i / 2 * 2], q[i / 2 * 2 + 1]));
    believed[i] = discounts[i / 2] * (stands[i / 2] ? kDiscount * behind : -1);
  }
  solver.step(1);
}

void train(const std::string& settings, const std::string& deploy, uint64_t seed) {
  crema::Context context({.threads = 1});  // more of them would only wait in a net of this size
  crema::Solver solver(settings, context, {.seed = seed});
  const int64_t batch = batch_of(solver.net());
  crema::Net actor(
      deploy, context,
      {.phase = crema::Phase::test, .share_params_with = &solver.net(), .share_all = true});
  actor.reshape_input("state", {1, 4});
  crema::Net target(deploy, context, {.phase = crema::Phase::test});
  target.reshape_input("state", {batch, 4});

  crema::Random random(seed, crema::stream_id("train"));
  CartPole game(random);
  std::vector<Step> memory;  // of all steps: 7 MB for 40,000 updates
  int length = 0, episodes = 0;
  for (int steps = 1; solver.iteration() < solver.max_iterations(); ++steps) {
    const int updates = solver.iteration();
    const float share = 1 - static_cast<float>(updates) / kExploration;
    const bool guess = random.uniform() < std::max(share, kLeastRandom);
    const State before = game.state();
    const int action = guess ? static_cast<int>(random.below(2)) : best_action(actor, before);
    const bool stands = game.step(action);
    const bool ends = !stands || ++length == kLongest;
    memory.push_back({before, game.state(), action, stands, ends});
    if (ends) {
      game = CartPole(random);
      length = 0;
      ++episodes;
    }
    if (steps <= kWarmUp || steps % kStepsPerUpdate != 0) continue;
    if (updates % kTargetInterval == 0)
      target.params().data().copy_from(solver.net().params().data());
    learn(solver, target, memory, random);
    if (solver.iteration() % 1000 == 0) {
      std::printf("%d updates, %d episodes; 10 without random actions: mean return %.1f\n",
                  solver.iteration(), episodes, play(actor, 10, seed));
      std::fflush(stdout);
    }
  }
  std::printf("%s\n", solver.snapshot().c_str());
}

void run(const std::vector<std::string>& args) {
  if ((args.size() == 3 || args.size() == 4) && args[0] == "train") {
    const std::string seed = args.size() == 4 ? args[3] : "1";
    if (seed.size() > 9 || seed.find_first_not_of("0123456789") != std::string::npos ||
        seed.empty())
      throw crema::Error("seed '", seed, "' is no whole number of at most nine digits");
    train(args[1], args[2], std::stoul(seed));
  } else if (args.size() == 3 && args[0] == "play") {
    crema::Context context({.threads = 1});
    crema::Net net(args[1], context,
                   {.phase = crema::Phase::test, .weights = {args[2]}, .strict = true});
    net.reshape_input("state", {1, 4});
    std::printf("mean return of 100 episodes: %.1f\n", play(net, 100, 1000000000));
  } else {
    throw crema::Error(
        "usage: cartpole_dqn train solver.prototxt deploy.prototxt [seed] | "
        "play deploy.prototxt weights.caffemodel");
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
    throw crema::Error("cannot write to standard output; is the disk full?");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::cerr << "cartpole_dqn: " << error.what() << "\n";
    return 1;
  }
}
