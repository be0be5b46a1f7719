// Runs an exported feature function over hypotheses from standard input, as Moses' search would:
//   FUNCTIONS then NAME VALUES for each; for each hypothesis PHRASES WORDS and the source words, then for each phrase
//   FIRST LAST TARGET-WORDS LINKS, the target words, the links, and scores ...
// and prints the function's values of each phrase and whether its state equals the one before.
// Arguments: the function's class, its model and, if it is to be listed before those it reads, `late`.
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

void Read(std::vector<Word>& words, size_t n)
{
  words.resize(n);
  for (size_t i = 0; i < n; ++i) std::cin >> words[i].factor.text;
}

template <class Trees>
void Run(const std::string& line, bool late)
{
  std::unique_ptr<Trees> trees;
  if (late) trees.reset(new Trees(line));
  std::vector<std::unique_ptr<Plain>> functions;
  size_t n_functions, n;
  std::string name;
  std::cin >> n_functions;
  for (size_t i = 0; i < n_functions; ++i) {
    std::cin >> name >> n;
    functions.emplace_back(new Plain(n, name));
  }
  if (!late) trees.reset(new Trees(line));
  trees->Load(AllOptions::ptr());
  for (size_t n_phrases, n_words; std::cin >> n_phrases >> n_words;) {
    InputType input;
    Read(input.words, n_words);
    State state(trees->EmptyHypothesisState(input));
    for (size_t i = 0; i < n_phrases; ++i) {
      InputPath path;
      TargetPhrase target;
      size_t n_links, from, to;
      std::cin >> path.range.first >> path.range.last >> n >> n_links;
      Read(target.words, n);
      for (size_t k = 0; k < n_links; ++k) {
        std::cin >> from >> to;
        target.alignment.links.insert(std::make_pair(from, to));
      }
      path.phrase.words.assign(input.words.begin() + path.range.first, input.words.begin() + path.range.last + 1);
      ScoreComponentCollection scores, none;
      for (const auto& function : functions) {
        std::vector<float> values(function->GetNumScoreComponents());
        for (float& value : values) std::cin >> value;
        scores.PlusEquals(function.get(), values);
      }
      trees->EvaluateInIsolation(path.phrase, target, scores, none);
      trees->EvaluateWithSourceContext(input, path, target, NULL, scores);
      if (i % 5 == 4) target.extra.clear(); // a phrase that was copied without them
      const Hypothesis hypo = {input, path.range, target, i + 1 == n_phrases};
      State next(trees->EvaluateWhenApplied(hypo, state.get(), &scores));
      for (float value : scores.GetScoresForProducer(trees.get())) std::printf("%.9g ", value);
      std::printf("%s\n", *next == *state && next->hash() == state->hash() ? "same" : "other");
      state = std::move(next);
    }
  }
}

int main(int argc, char** argv)
{
  const std::string chosen = argc > 1 ? argv[1] : "";
  try {
#define RUN(Class) if (chosen == #Class) Run<Class>(argv[2], argc > 3);
    EACH(RUN)
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
