"""The learner: templates, first weights, trees, and what decides, each chosen by lists that were not learned from.

``induce`` is what the command, the estimator, ``compare`` and the loop call. It chooses; ``boost.boost`` is Figure 3 of [TA13].
A select list, or folds of the training lists where there is none, choose

    templates   the list's own features, or a set of templates beside them        (selection.template_set)
    penalty     on the weights of sparse features                                 (selection.penalty)
    trees       their number, none included                                       (selection.tree_count)
    decision    the highest score, the expected length, minimum Bayes risk        (selection.way)

and say how far margins are to be trusted (selection.calibration) and what each part is worth (selection.waterfall).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple, TypeAlias

from ..core.arrays import F64, Array
from ..core.processes import give_back
from ..features.expected_length import learn_length
from ..features.feature_maker import FeatureMaker, with_plan
from ..lists.feature_range import ranges
from ..lists.merging import concat
from ..lists.nbest import NBest
from ..lists.quality import choosing_metric
from ..metrics.metric import Metric, metric_of
from ..model.decision import CALIBRATION, RANGES, Length
from ..model.decision import KEY as DECISION
from ..model.model import Model
from ..model.own_order import KEPT, in_own_order
from ..rerank.reranker import needed_features
from .boost import run_rounds
from .boost_options import AUTO, NOTHING_TO_CHOOSE, BoostOptions, recipe, with_changes
from .local import Local
from .record import MADE_FROM, Callback, Record, check_made_from, kept_rounds, made_from
from .selection.calibration import Outcomes, calibration, outcomes
from .selection.penalty import chosen_penalty
from .selection.template_set import TEMPLATES, FeaturedLists, chosen_features
from .selection.tree_count import ALL, HeldOutChoices, chosen_count, counts_to_try, held_out_choices, of_all_trials
from .selection.trials import Cluster, Tell, Trial, Trials, Why
from .selection.waterfall import DECISION as DECIDED
from .selection.waterfall import FIRST, KEY, OWN, TREES, waterfall
from .selection.waterfall import TEMPLATES as TEMPLATED
from .selection.way import chosen_way, is_to_choose, ways_of_trials

Featured: TypeAlias = Callable[[FeaturedLists, BoostOptions], tuple[FeaturedLists, BoostOptions]]

CHOICES = (TEMPLATES, "penalties", "chosen_by", "tree_count", DECISION, KEPT, CALIBRATION, KEY)  # of a config, in this order


def induce(
    lists: NBest | Sequence[NBest],
    select: NBest | None = None,
    options: BoostOptions | None = None,
    *,
    templates: str | None = None,
    maker: FeatureMaker | None = None,
    init: Model | None = None,
    so_far: Model | None = None,
    seed: int = 0,
    threads: int = 1,
    callback: Callback | None = None,
    tell: Tell | None = None,
    static_only: bool = False,
    featured: Featured | None = None,
    cluster: Cluster | None = None,
    made_with: Mapping[str, Any] = {},
) -> Model:
    """Learn from all lists together; ``select`` is never learned from, and chooses where it is given. Folds do where it is not.

    ``templates`` names sets or templates; "none" leaves the lists' features alone. Where it is None the held-out lists choose,
    if the options try templates, as those of the default do and those of the paper do not.
    A model to start from (``init``) brings its own. After each round ``callback`` gets the history row and the model with all
    trees so far; given back as ``so_far`` with the same lists, options and seed, it is continued to the very model that an
    uninterrupted run gives. ``tell`` hears of the fits that choose, ``featured`` of the features that were chosen, which it may
    change. With ``static_only`` only templates of phrase pairs are tried. Fits run here, or on the workers of a cluster. The
    model's config says what it was made from: the lists, the model to start from, the release, and what else it is ``made_with``.
    """
    dev = lists if isinstance(lists, NBest) else concat(list(lists))
    options = with_gain_of(dev, options or recipe())
    if select is not None:
        choosing_metric(select, options.metric)
    maker = maker or FeatureMaker(seed=seed, threads=threads)
    made = made_from(dev, select, options, init=init, templates=templates, static_only=static_only, **made_with)
    if so_far is not None:
        check_made_from(so_far.config, made, options, seed)
    how: dict[str, Any] = {"tell": tell, "cluster": cluster}
    features = chosen_features(dev, select, options, templates, init or so_far, maker, static_only=static_only, **how)
    known = {} if so_far is None else kept_reasons(so_far, TEMPLATES, "penalties")
    features = replace(features, why={MADE_FROM: made, **features.why, **known})
    if featured is not None:
        features, options = featured(features, options)
    how |= {"seed": seed, "threads": threads}
    return induce_on(features, options, init=init, so_far=so_far, callback=callback, **how)


def with_gain_of(dev: NBest, options: BoostOptions) -> BoostOptions:
    """Return the options with the first quality column as what is learned, where BLEU is and the list has no references."""
    if options.gain != "bleu" or dev.has_stats or not dev.quality.names:
        return options
    return with_changes(options, {"gain": dev.quality.names[0]})


def induce_on(
    features: FeaturedLists,
    options: BoostOptions,
    *,
    init: Model | None = None,
    so_far: Model | None = None,
    callback: Callback | None = None,
    **how: Any,
) -> Model:
    """Learn with features that are chosen already: choose the penalty, learn, choose the number of trees and the decision.

    ``how`` has the seed and the threads, who hears of the fits, and the cluster that they run on, see Trials.
    """
    trials, n_init = Trials(features.dev, **how).on(features.dev, features.select), len(init.trees) if init else 0
    dev, select, cluster, seed = trials.dev, trials.select, trials.cluster, trials.seed
    options, why, near = with_penalty(trials, features, options, init or so_far)
    engine = Local(dev, options, seed=seed, threads=trials.threads) if cluster is None else None

    def learn(rounds: int, why: Why) -> Model:
        """Learn from all lists; of the rounds, all are kept."""
        how: dict[str, Any] = {"seed": seed, "why": why, "init": init, "so_far": so_far, "callback": callback}
        wanted = replace(options, rounds=rounds)
        if engine is not None:
            model = run_rounds(engine, Record(wanted, select, **how))
        elif cluster is not None:
            model = cluster.run_rounds(dev, select, wanted, **how)
        return replace(model, config={**model.config, "best_round": len(model.trees) - n_init})

    if not trials.are_enough or (options.rule == ALL and not is_to_choose(options)):  # nothing is to be chosen
        model = kept_rounds(learn(options.rounds, why), n_init)
    elif select is not None:
        here = replace(trials, cluster=None)  # as the select list is
        model = settled(here, learn(options.rounds, why), options, n_init, own_rows=features.own_rows)
    elif so_far is not None and "tree_count" in so_far.config:
        model = learn(so_far.config["rounds"], {**why, **kept_reasons(so_far)})
    else:
        counts = counts_to_try(options.rounds)
        task = partial(fit_of_trial, options=options, seed=seed, init=init, counts=counts)
        tasks = [partial(task, near=near[k] if near else None) for k in range(len(trials))]
        if engine is not None and options.rounds:
            import_module("lightgbm")  # forks have it then, and do not import it each
        beside = partial(engine.first_weights, 1) if engine and init is None and so_far is None else None
        fits = trials.side_by_side(tasks, "number of trees", options.rounds + 1, beside=beside)
        rounds, reasons = choices(trials, fits, options, counts, n_init, features.own_rows)
        give_back()
        model = learn(rounds, {**why, **reasons})
    model = with_plan(alone_where_better(dev, model), features.plan)
    read = needed_features(model, features.plan.features if features.plan else set())
    return replace(model, config={**model.config, RANGES: ranges(dev, read)})


class TrialFit(NamedTuple):
    """A model of the sentences of a trial, the lengths that they teach, and the model's choices from the unseen lists."""

    model: Model
    length: Length | None
    held_out: HeldOutChoices


def fit_of_trial(
    trial: Trial, options: BoostOptions, seed: int, init: Model | None, near: F64 | None, counts: Sequence[int]
) -> TrialFit:
    """Learn from the sentences of a trial, and choose from those that it has not seen after each of these numbers of trees."""
    is_dense = trial.dev.unit_names and not options.tree_features and not (init and init.trees)  # what trees look at
    part = (trial.dev.without_sparse() if is_dense else trial.dev).take(trial.train)
    fold = Local(part, options, seed=seed, threads=trial.threads, near=near, some_of=(trial.dev, trial.train))
    record = Record(options, seed=seed, init=init, callback=lambda *_: trial.step())
    model, length = run_rounds(fold, record), learn_length(part)
    del fold, part
    return TrialFit(model, length, held_out_choices(model, trial.unseen(), options.metric, counts, record.n_init))


def with_penalty(
    trials: Trials, features: FeaturedLists, options: BoostOptions, start: Model | None
) -> tuple[BoostOptions, Why, list[F64]]:
    """Return the options without ``auto``, why, and first weights of the trials where these were fitted.

    A model to start from has its weights, and a run so far its penalty.
    """
    if options.sparse_l2 != AUTO:
        return options, features.why, []
    if start is not None:
        known = start.config.get("sparse_l2")
        penalty = known if isinstance(known, int | float) else NOTHING_TO_CHOOSE
        return replace(options, sparse_l2=float(penalty)), features.why, []
    if features.penalty is None and (not len(trials.dev.sparse_names) or not trials.are_enough):
        return replace(options, sparse_l2=NOTHING_TO_CHOOSE), features.why, []
    found = features.penalty or chosen_penalty(trials, options)
    return replace(options, sparse_l2=found.sparse_l2), {**features.why, **found.why}, found.weights


def choices(
    trials: Trials,
    fits: Sequence[TrialFit],
    options: BoostOptions,
    counts: Sequence[int],
    n_init: int,
    own_rows: Array | None,
) -> tuple[int, dict[str, Any]]:
    """Return the number of trees, and what the config says of it, the decision, the calibration and each part's worth."""
    metric, held_out = metric_of(options.metric, trials.dev), of_all_trials([fit.held_out for fit in fits])
    kept, why = chosen_count(metric, held_out.rows, counts, options.rule)
    reasons: dict[str, Any] = {"chosen_by": trials.by, "tree_count": why}
    ways = ways_of_trials(trials, [(fit.model.truncated(n_init + counts[kept]), fit.length) for fit in fits], options)
    way, ours, margin = 0, held_out.rows[kept], held_out.margin[kept]
    if is_to_choose(options):
        way, decision = chosen_way(metric, ways, learn_length(trials.dev))
        ours, margin, reasons = ways.rows[way], ways.margin[way], reasons | decision
    if held_out.ordered is not None and gain_of(metric, held_out.ordered) > gain_of(metric, ours):
        reasons[KEPT] = True
    parts = trials.side_by_side([partial(outcomes_of_trial, ranked=r, metric=options.metric) for r in ways.ranked[way]])
    reasons[CALIBRATION] = asdict(calibration(metric, ours=ours, theirs=held_out.first, margin=margin, parts=parts))
    own = {OWN: own_rows} if own_rows is not None else {}
    first_weights = TEMPLATED if own else OWN
    stages = {FIRST: held_out.first, **own, first_weights: held_out.rows[0], TREES: held_out.rows[kept], DECIDED: ours}
    return counts[kept], reasons | waterfall(metric, stages, by=trials.by)


def outcomes_of_trial(trial: Trial, ranked: F64, metric: str) -> Outcomes:
    """Say which choices are the best of the lists that a trial's model has not seen and ranks so."""
    unseen = trial.unseen(all_units=True)
    return outcomes(unseen, ranked, metric_of(metric, unseen))


def settled(trials: Trials, model: Model, options: BoostOptions, n_init: int = 0, *, own_rows: Array | None = None) -> Model:
    """Let the select list choose among the rounds of a model that was not learned from it."""
    counts = list(range(len(model.trees) - n_init + 1))
    [trial] = trials
    fit = TrialFit(model, learn_length(trials.dev), held_out_choices(model, trial.unseen(), options.metric, counts, n_init))
    rounds, reasons = choices(trials, [fit], options, counts, n_init, own_rows)
    config = {**model.config, **reasons, "best_round": rounds}
    return replace(model.truncated(n_init + rounds), config=config)


def alone_where_better(dev: NBest, model: Model) -> Model:
    """Return the list's own order as the model, where what was learned is worse on lists that it was not learned from."""
    if KEPT not in model.config:
        return model
    kept = in_own_order(dev, model)
    return replace(kept, config={**kept.config, "best_round": 0})


def kept_reasons(model: Model, *keys: str) -> Why:
    """Return what the config of a model says of these choices, or of all."""
    return {key: model.config[key] for key in keys or CHOICES if key in model.config}


def gain_of(metric: Metric, rows: Array) -> float:
    """Return the metric of the sum of rows, higher is better."""
    return float(metric.higher(metric.score(rows.sum(axis=0))))
