// The part of Moses' interface that an exported feature function uses, small enough to compile in a test. Signatures are Moses'.
#pragma once

#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#define UTIL_THROW2(message) \
  do { std::ostringstream text; text << message; throw std::runtime_error(text.str()); } while (0)
#define UTIL_THROW_IF2(condition, message) \
  do { if (condition) UTIL_THROW2(message); } while (0)

namespace Moses
{

struct AllOptions {
  typedef std::shared_ptr<AllOptions const> ptr;
};
class FactorMask;
class Phrase;
class InputPath;
class StackVec;
class TranslationOptionList;
class ChartHypothesis;
class ScoreComponentCollection;

struct InputType {
  size_t size;
  size_t GetSize() const { return size; }
};

struct TargetPhrase {
  size_t size;
  size_t GetSize() const { return size; }
};

struct Range {
  size_t first, last; // inclusive
  size_t GetStartPos() const { return first; }
  size_t GetEndPos() const { return last; }
};

struct Hypothesis {
  const InputType& input;
  Range range;
  TargetPhrase target;
  const InputType& GetInput() const { return input; }
  const Range& GetCurrSourceWordsRange() const { return range; }
  const TargetPhrase& GetCurrTargetPhrase() const { return target; }
};

class FFState
{
public:
  virtual ~FFState() {}
  virtual size_t hash() const = 0;
  virtual bool operator==(const FFState& other) const = 0;
};

class FeatureFunction
{
protected:
  std::string m_description;
  size_t m_numScoreComponents;
  AllOptions::ptr m_options;

  static std::vector<FeatureFunction*>& Registry() {
    static std::vector<FeatureFunction*> all;
    return all;
  }

public:
  static const std::vector<FeatureFunction*>& GetFeatureFunctions() { return Registry(); }

  FeatureFunction(size_t numScoreComponents, const std::string& line) : m_numScoreComponents(numScoreComponents) {
    std::istringstream words(line);
    for (std::string word; words >> word;) {
      if (word.compare(0, 5, "name=") == 0) m_description = word.substr(5);
      if (word.compare(0, 13, "num-features=") == 0) m_numScoreComponents = std::stoul(word.substr(13));
    }
    Registry().push_back(this);
  }
  virtual ~FeatureFunction() {}
  virtual bool IsStateless() const = 0;
  virtual void Load(AllOptions::ptr const& opts) { m_options = opts; }
  void ReadParameters() {}
  size_t GetNumScoreComponents() const { return m_numScoreComponents; }
  const std::string& GetScoreProducerDescription() const { return m_description; }
  virtual bool IsUseable(const FactorMask& mask) const = 0;
  virtual void EvaluateInIsolation(const Phrase& source, const TargetPhrase& targetPhrase,
                                   ScoreComponentCollection& scoreBreakdown, ScoreComponentCollection& estimatedScores) const = 0;
  virtual void EvaluateWithSourceContext(const InputType& input, const InputPath& inputPath, const TargetPhrase& targetPhrase,
                                         const StackVec* stackVec, ScoreComponentCollection& scoreBreakdown,
                                         ScoreComponentCollection* estimatedScores = NULL) const = 0;
  virtual void EvaluateTranslationOptionListWithSourceContext(const InputType& input, const TranslationOptionList& list) const = 0;
};

class ScoreComponentCollection
{
  std::map<const FeatureFunction*, std::vector<float>> m_scores;

public:
  std::vector<float> GetScoresForProducer(const FeatureFunction* sp) const {
    const auto found = m_scores.find(sp);
    return found == m_scores.end() ? std::vector<float>(sp->GetNumScoreComponents()) : found->second;
  }
  void PlusEquals(const FeatureFunction* sp, const std::vector<float>& scores) {
    UTIL_THROW_IF2(scores.size() != sp->GetNumScoreComponents(), "wrong number of scores");
    std::vector<float>& own = m_scores[sp];
    own.resize(scores.size());
    for (size_t i = 0; i < scores.size(); ++i) own[i] += scores[i];
  }
};

class StatelessFeatureFunction : public FeatureFunction
{
public:
  StatelessFeatureFunction(size_t numScoreComponents, const std::string& line) : FeatureFunction(numScoreComponents, line) {}
  bool IsStateless() const { return true; }
  virtual void EvaluateWhenApplied(const Hypothesis& hypo, ScoreComponentCollection* accumulator) const = 0;
  virtual void EvaluateWhenApplied(const ChartHypothesis& hypo, ScoreComponentCollection* accumulator) const = 0;
};

class StatefulFeatureFunction : public FeatureFunction
{
public:
  StatefulFeatureFunction(size_t numScoreComponents, const std::string& line) : FeatureFunction(numScoreComponents, line) {}
  bool IsStateless() const { return false; }
  virtual FFState* EvaluateWhenApplied(const Hypothesis& cur_hypo, const FFState* prev_state,
                                       ScoreComponentCollection* accumulator) const = 0;
  virtual FFState* EvaluateWhenApplied(const ChartHypothesis& cur_hypo, int featureID,
                                       ScoreComponentCollection* accumulator) const = 0;
  virtual const FFState* EmptyHypothesisState(const InputType& input) const = 0;
};

}
