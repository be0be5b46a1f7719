// The part of Moses' interface that an exported feature function uses, small enough to compile in a test. Signatures are Moses'.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <valarray>
#include <vector>

namespace boost
{
using std::shared_ptr;
}

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
class StackVec;
class TranslationOptionList;
class ChartHypothesis;
class ScoreComponentCollection;

struct StringPiece {
  const char* at;
  size_t n;
  const char* data() const { return at; }
  size_t size() const { return n; }
};

struct Factor {
  std::string text;
  StringPiece GetString() const {
    const StringPiece out = {text.data(), text.size()};
    return out;
  }
};

struct Word {
  Factor factor;
  const Factor* GetFactor(size_t) const { return &factor; }
};

struct Phrase {
  std::vector<Word> words;
  size_t GetSize() const { return words.size(); }
  const Word& GetWord(size_t i) const { return words[i]; }
};

struct InputType : public Phrase {};

typedef std::vector<float> Scores;
class FeatureFunction;

struct AlignmentInfo {
  typedef std::set<std::pair<size_t, size_t> > CollType;
  typedef CollType::const_iterator const_iterator;
  CollType links;
  const_iterator begin() const { return links.begin(); }
  const_iterator end() const { return links.end(); }
};

struct TargetPhrase : public Phrase {
  AlignmentInfo alignment;
  std::map<FeatureFunction const*, boost::shared_ptr<Scores> > extra;
  const AlignmentInfo& GetAlignTerm() const { return alignment; }
  Scores const* GetExtraScores(FeatureFunction const* ff) const {
    return extra.count(ff) ? extra.find(ff)->second.get() : NULL;
  }
  void SetExtraScores(FeatureFunction const* ff, boost::shared_ptr<Scores> const& scores) { extra[ff] = scores; }
};

struct Range {
  size_t first, last; // inclusive
  size_t GetStartPos() const { return first; }
  size_t GetEndPos() const { return last; }
};

struct InputPath {
  Phrase phrase;
  Range range;
  const Phrase& GetPhrase() const { return phrase; }
  const Range& GetWordsRange() const { return range; }
};

struct Hypothesis {
  const InputType& input;
  Range range;
  const TargetPhrase& target;
  bool is_complete;
  const InputType& GetInput() const { return input; }
  const Range& GetCurrSourceWordsRange() const { return range; }
  const TargetPhrase& GetCurrTargetPhrase() const { return target; }
  bool IsSourceCompleted() const { return is_complete; }
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
  size_t m_numScoreComponents, m_index;
  AllOptions::ptr m_options;
  std::vector<std::string> m_args;

  static std::vector<FeatureFunction*>& Registry() {
    static std::vector<FeatureFunction*> all;
    return all;
  }

public:
  static const std::vector<FeatureFunction*>& GetFeatureFunctions() { return Registry(); }

  FeatureFunction(size_t numScoreComponents, const std::string& line) : m_numScoreComponents(numScoreComponents) {
    std::istringstream words(line);
    m_index = Registry().empty() ? 0 : Registry().back()->m_index + Registry().back()->m_numScoreComponents;
    for (std::string word; words >> word;) {
      if (word.compare(0, 5, "path=") == 0) m_args.push_back(word.substr(5));
      if (word.compare(0, 5, "name=") == 0) m_description = word.substr(5);
      if (word.compare(0, 13, "num-features=") == 0) m_numScoreComponents = std::stoul(word.substr(13));
    }
    Registry().push_back(this);
  }
  virtual ~FeatureFunction() {}
  virtual bool IsStateless() const = 0;
  virtual void Load(AllOptions::ptr const& opts) { m_options = opts; }
  virtual void SetParameter(const std::string& key, const std::string&) { UTIL_THROW2("unknown argument " << key); }
  void ReadParameters() {
    for (size_t k = 0; k < m_args.size(); ++k) SetParameter("path", m_args[k]);
  }
  size_t GetIndex() const { return m_index; }
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
  std::valarray<float> m_scores;

public:
  ScoreComponentCollection() {
    const FeatureFunction& last = *FeatureFunction::GetFeatureFunctions().back();
    m_scores.resize(last.GetIndex() + last.GetNumScoreComponents());
  }
  const std::valarray<float>& getCoreFeatures() const { return m_scores; }
  std::vector<float> GetScoresForProducer(const FeatureFunction* sp) const {
    return std::vector<float>(&m_scores[sp->GetIndex()], &m_scores[sp->GetIndex()] + sp->GetNumScoreComponents());
  }
  void PlusEquals(size_t index, float score) { m_scores[index] += score; }
  void PlusEquals(const FeatureFunction* sp, const std::vector<float>& scores) {
    UTIL_THROW_IF2(scores.size() != sp->GetNumScoreComponents(), "wrong number of scores");
    for (size_t i = 0; i < scores.size(); ++i) m_scores[sp->GetIndex() + i] += scores[i];
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
