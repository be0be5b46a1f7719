// Runs an exported feature function over hypotheses from standard input, as Moses' search would:
//   FUNCTIONS then NAME VALUES for each; for each hypothesis PHRASES WORDS, then for each phrase FIRST LAST TARGET-WORDS scores ...
// and prints the function's values of each phrase and whether its state equals the one before (- for a stateless function).
// Arguments: the function's class and, if it is to be listed before those it reads, `late`.
#include <cstdio>
#include <iostream>
#include <memory>

#include "classes.h"  // the exported ones, and EACH(X): X(Class) for each of them

using namespace Moses;

struct Plain : public StatelessFeatureFunction { // a feature function whose values are given
  Plain(size_t n, const std::string& name) : StatelessFeatureFunction(n, "Plain name=" + name) {}
  bool IsUseable(const FactorMask&) const { return true; }
  void EvaluateInIsolation(const Phrase&, const TargetPhrase&, ScoreComponentCollection&, ScoreComponentCollection&) const {}
  void EvaluateWithSourceContext(const InputType&, const InputPath&, const TargetPhrase&, const StackVec*,
                                 ScoreComponentCollection&, ScoreComponentCollection*) const {}
  void EvaluateTranslationOptionListWithSourceContext(const InputType&, const TranslationOptionList&) const {}
  void EvaluateWhenApplied(const Hypothesis&, ScoreComponentCollection*) const {}
  void EvaluateWhenApplied(const ChartHypothesis&, ScoreComponentCollection*) const {}
};

typedef std::unique_ptr<const FFState> State;

State First(const StatefulFeatureFunction& f, const InputType& input) { return State(f.EmptyHypothesisState(input)); }
State First(const StatelessFeatureFunction&, const InputType&) { return State(); }
State Next(const StatefulFeatureFunction& f, const Hypothesis& hypo, const State& prev, ScoreComponentCollection& scores)
{
  return State(f.EvaluateWhenApplied(hypo, prev.get(), &scores));
}
State Next(const StatelessFeatureFunction& f, const Hypothesis& hypo, const State&, ScoreComponentCollection& scores)
{
  f.EvaluateWhenApplied(hypo, &scores);
  return State();
}

template <class Trees>
void Run(bool late)
{
  std::unique_ptr<Trees> trees;
  if (late) trees.reset(new Trees("Trees name=Trees0"));
  std::vector<std::unique_ptr<Plain>> functions;
  size_t n_functions, n;
  std::string name;
  std::cin >> n_functions;
  for (size_t i = 0; i < n_functions; ++i) {
    std::cin >> name >> n;
    functions.emplace_back(new Plain(n, name));
  }
  if (!late) trees.reset(new Trees("Trees name=Trees0"));
  trees->Load(AllOptions::ptr());
  InputType input;
  for (size_t n_phrases; std::cin >> n_phrases >> input.size;) {
    State state = First(*trees, input);
    for (size_t i = 0; i < n_phrases; ++i) {
      Hypothesis hypo = {input, {0, 0}, {0}};
      std::cin >> hypo.range.first >> hypo.range.last >> hypo.target.size;
      ScoreComponentCollection scores;
      for (const auto& function : functions) {
        std::vector<float> values(function->GetNumScoreComponents());
        for (float& value : values) std::cin >> value;
        scores.PlusEquals(function.get(), values);
      }
      State next = Next(*trees, hypo, state, scores);
      for (float value : scores.GetScoresForProducer(trees.get())) std::printf("%.9g ", value);
      const bool same = next && *next == *state && next->hash() == state->hash();
      std::printf("%s\n", !next ? "-" : same ? "same" : "other");
      state = std::move(next);
    }
  }
}

int main(int argc, char** argv)
{
  const std::string chosen = argc > 1 ? argv[1] : "";
  try {
#define RUN(Class) if (chosen == #Class) Run<Class>(argc > 2);
    EACH(RUN)
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
