"""Settings -> a run that is ready to train: a new one, or one that is resumed.

DIR/                 the model (elmo.load opens it): the best so far by held-out perplexity
DIR/run/settings.toml, log.jsonl, curves.png, tensorboard/
DIR/run/corpus/      the text as ids, unless --cache names another folder
DIR/run/checkpoints/ the complete state, for --resume
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from elmo.bilm.config import BiLMConfig
from elmo.bilm.grow import grow
from elmo.bilm.initialise import initialise
from elmo.bilm.kernels import binding
from elmo.bilm.model import BiLM
from elmo.checkpoints import native
from elmo.checkpoints.checkpoint import Checkpoint
from elmo.checkpoints.pretrained import PretrainedBiLM, load
from elmo.errors import CheckpointError, ConfigError, InputError
from elmo.pretrain import checkpoint
from elmo.pretrain.batches import make_batches
from elmo.pretrain.build_corpus import open_or_build
from elmo.pretrain.checkpoint import CheckpointFolder
from elmo.pretrain.corpus import SPECIALS, Corpus
from elmo.pretrain.run import Run
from elmo.pretrain.scoring import check_sizes
from elmo.pretrain.settings import DataSettings, OriginSettings, PretrainSettings
from elmo.pretrain.softmax import WordSoftmax
from elmo.pretrain.world import World
from elmo.settings import flatten, read_settings, to_toml
from elmo.storage.atomic import deleting_empty_folders, write_atomic, writing
from elmo.text.characters import CharacterScheme
from elmo.text.vocabulary import Vocabulary

SETTINGS_FILE = "settings.toml"
_CHECKPOINTS = Path("run/checkpoints")
PLAN_FILE = "finetune.toml"
"""The settings of a fine-tuning, which has up to two runs."""
_FIXED = ("model.", "data.", "optimizer.name", "training.seed", "training.only_softmax")
"""Settings that a checkpoint's tensors and its position in the text depend on."""
_MAY_MOVE = ("data.train", "data.heldout", "data.vocabulary")
"""Paths, which may change: the corpus has a digest of its text."""
Say = Callable[[str], None]


@dataclass(frozen=True)
class Project:
    """A run with its folder, vocabulary and checkpoints."""

    folder: Path
    run: Run
    vocabulary: Vocabulary
    checkpoints: CheckpointFolder

    @property
    def run_folder(self) -> Path:
        return self.folder / "run"

    def export(self, folder: Path | None = None) -> None:
        """Write the model with its present weights."""
        run = self.run
        model = Checkpoint(
            config=run.bilm.config,
            tensors=dict(run.bilm.state_dict()),
            vocabulary=self.vocabulary,
            softmax=run.softmax.to_weights(),
            card=self.card(),
        )
        native.write(model, folder or self.folder)

    def card(self) -> dict[str, Any]:
        """Facts about the model."""
        progress, sources = self.run.progress_of_weights, self.run.corpus.sources
        return {
            "name": self.folder.name,
            "tokens_seen": progress.tokens,
            "updates": progress.update,
            "training_hours": round(progress.seconds / 3600, 3),
            "heldout_perplexity": self.run.heldout,
            "sources": {
                f"{source.role}/{source.name}": {
                    "words": source.num_words, "sentences": source.num_sentences, "weight": source.weight,
                }
                for source in sources
            },
        }  # fmt: skip


def has_run(folder: Path) -> bool:
    """Whether a run was begun in the folder."""
    return (folder / "run" / SETTINGS_FILE).exists()


def check_new(folder: Path) -> None:
    """Refuse a folder that holds a run or a model, which a new run would replace."""
    is_run = has_run(folder) or (folder / "run" / PLAN_FILE).exists()
    if is_run or native.matches(folder):
        found = f"a run. Resume it (--resume {folder})" if is_run else "a model. Start from it (-m)"
        raise CheckpointError(f"{folder} already holds {found}, or give another folder with -o.")


def check_text(data: DataSettings) -> None:
    """Refuse settings without training text."""
    if not data.train:
        raise ConfigError("There is no text to train on. Give files with --train, or [[data.train]] in the settings.")


@contextmanager
def all_or_nothing(folder: Path) -> Iterator[None]:
    """If a run in `folder` cannot begin, delete what was made for it."""
    run = folder / "run"
    is_new = not run.exists()
    with deleting_empty_folders(folder):
        try:
            yield
        except Exception as error:
            with suppress(OSError):
                (run / SETTINGS_FILE).unlink()
            if is_new:
                shutil.rmtree(run, ignore_errors=True)
            # An OSError of the operating system may be about the run's folder or about the cache.
            with writing(Path(getattr(error, "filename", None) or folder), advice="Give another folder (-o, --cache)."):
                raise


def begin(
    settings: PretrainSettings,
    folder: Path,
    *,
    world: World | None = None,
    say: Say = lambda line: None,
    is_new: bool = True,
) -> Project:
    """A new run, from random weights or from those of the model that `settings.origin` names.

    That model keeps its shape, not that of `settings.model`, unless `origin.grow` is set. `is_new`: refuse a folder
    that holds a run or a model.
    """
    world = world or World()
    if world.leads and is_new:
        check_new(folder)
    settings = _with_known_precision(settings, world)
    with all_or_nothing(folder) if world.leads else nullcontext():
        settings = replace(settings, origin=_with_absolute_paths(settings.origin))
        model = _load_initial(settings) if settings.origin.model else None
        if model is not None:
            # The settings file must have the shape that is trained.
            settings = replace(settings, model=model.config)
        if world.leads:
            # Before the text is read, so that a run that is killed while it reads can be resumed too.
            write_atomic(folder / "run" / SETTINGS_FILE, to_toml(settings))
        project = _assemble(settings, folder, model, world, say)
    if model is not None and world.leads:
        project.export()
    return project


def _with_known_precision(settings: PretrainSettings, world: World) -> PretrainSettings:
    """What "auto" means for these processes. The run keeps it, also where it is resumed on another processor."""
    if settings.training.precision != "auto":
        return settings
    fast = world.device.type == "cpu" and binding.has_fast_bfloat16()
    all_fast = all(world.gather(fast))
    return replace(settings, training=replace(settings.training, precision="bfloat16" if all_fast else "float32"))


def _with_absolute_paths(origin: OriginSettings) -> OriginSettings:
    """The run may be resumed from another working directory."""
    model = str(Path(origin.model).absolute()) if origin.model and Path(origin.model).exists() else origin.model
    return replace(origin, model=model, cache=str(Path(origin.cache).absolute()) if origin.cache else "")


def _load_initial(settings: PretrainSettings) -> PretrainedBiLM:
    model = load(settings.origin.model)
    if not settings.origin.grow:
        return model
    generator = torch.Generator().manual_seed(settings.training.seed)
    larger = grow(model, replace(model.config, lstm=settings.model.lstm, char_cnn=settings.model.char_cnn), generator)
    # A warm state has the cells of the smaller model.
    checkpoint = replace(
        model.to_checkpoint(), config=larger.config, tensors=dict(larger.state_dict()), warm_state=None
    )
    return PretrainedBiLM.from_checkpoint(checkpoint, source=settings.origin.model)


def resume(
    folder: Path, *, overrides: Sequence[str] = (), world: World | None = None, say: Say = lambda line: None
) -> Project:
    """The run in `folder`, from its last checkpoint; overrides are saved in its settings."""
    world = world or World()
    path = folder / "run" / SETTINGS_FILE
    if not has_run(folder):
        raise CheckpointError(f"{folder} holds no run: {path} is missing. Give a folder that elmo pretrain -o made.")
    settings = _with_known_precision(read_settings(PretrainSettings, path, overrides=overrides), world)
    settings = replace(settings, origin=_with_absolute_paths(settings.origin))
    latest = CheckpointFolder(folder / _CHECKPOINTS, keep=settings.training.keep_checkpoints).latest()
    if overrides and latest is not None:
        _refuse_changes(read_settings(PretrainSettings, path), settings, folder)
    initial = None
    if settings.origin.model:
        initial = load(folder) if native.matches(folder) else _load_initial(settings)
        # Without its checkpoints a run begins again, but not from a model that it has trained.
        if latest is None and initial.card.get("updates"):
            initial = _load_initial(settings)
    project = _assemble(settings, folder, initial, world, say)
    if latest is None:
        say("no checkpoint yet: starting from the beginning")
    else:
        _load(project, latest)
        say(f"resuming from update {project.run.progress.update:,} ({latest})")
    if world.leads and overrides:
        write_atomic(path, to_toml(settings))
    return project


def _refuse_changes(begun: PretrainSettings, wanted: PretrainSettings, folder: Path) -> None:
    before = flatten(begun)
    for name, now in flatten(wanted).items():
        if name.startswith(_FIXED) and name not in _MAY_MOVE and now != before.get(name):
            raise ConfigError(
                f"{name} is {now}, but the run in {folder} was begun with {before.get(name)}, which its checkpoints "
                f"need. Leave it out, or start a new run from the model: elmo pretrain -m {folder} -o OTHER"
            )


def _load(project: Project, latest: Path) -> None:
    state = checkpoint.read(latest)
    if state.counters["corpus"] != project.run.corpus.fingerprint:
        raise InputError(
            f"The text has changed since {latest} was written, so its position in the text is not valid. Restore the "
            f"old text, or start a new run from the model: elmo pretrain -m {project.folder}"
        )
    project.run.load(state)


def _assemble(
    settings: PretrainSettings, folder: Path, initial: PretrainedBiLM | None, world: World, say: Say
) -> Project:
    data = settings.data
    check_text(data)
    checkpoints = CheckpointFolder(folder / _CHECKPOINTS, keep=settings.training.keep_checkpoints)
    if world.leads:
        checkpoints.check_space(0)
    given = _given_vocabulary(settings, initial)
    begin, end = settings.model.begin_sentence, settings.model.end_sentence
    check_markers(settings.model, given)
    if not world.leads:
        world.wait()
    cache = Path(settings.origin.cache or folder / "run" / "corpus")
    corpus = open_or_build(
        cache, data, tokenizer=settings.model.tokenizer, markers=(begin, end), vocabulary=given, say=say
    )
    num_words = len(given) if given else corpus.vocabulary_size(data.vocabulary_size, data.min_count)
    vocabulary = given or Vocabulary(tuple(corpus.words(num_words)), begin_sentence=begin, end_sentence=end)
    vocabulary.require_writable()
    bilm, softmax = _model(settings, corpus, num_words, initial)
    bilm.requires_grad_(not settings.training.only_softmax)
    if world.leads:
        if bilm.config.characters is not None:
            corpus.spelling(bilm.config.characters)
        world.wait()
    run = Run(
        settings,
        corpus,
        make_batches(corpus, data, seed=settings.training.seed),
        bilm=bilm,
        softmax=softmax,
        world=world,
    )
    size = sum(tensor.nbytes for tensor in run.state().tensors.values())
    if world.leads:
        # The kept ones, the best one and the one being written; Adam's moments are added by the first update.
        checkpoints.check_space(2 * size * (settings.training.keep_checkpoints + 2))
    return Project(folder, run, vocabulary, checkpoints)


def _given_vocabulary(settings: PretrainSettings, initial: PretrainedBiLM | None) -> Vocabulary | None:
    """The vocabulary of the settings' file or of the initial model; None if the text gives it."""
    file = settings.data.vocabulary
    given = load_vocabulary(file, settings.model) if file else None
    if initial is None:
        return given
    known, num_rows = initial.vocabulary, None if initial.softmax is None else len(initial.softmax.weight)
    if given is not None:
        has_rows = num_rows is not None or initial.config.word_embedding is not None
        if num_rows not in (None, len(given)):
            problem = f"{file} has {len(given):,} words, but the model's softmax has {num_rows:,}"
        elif has_rows and known is not None and known.words != given.words:
            problem = f"{file} has other words than the model, or in another order"
        else:
            return given
        advice = "Leave data.vocabulary out to keep the model's own"
    elif known is None and num_rows is not None:
        problem = f"The model has a softmax of {num_rows:,} words, but no vocabulary"
        advice = "Give the vocabulary file of its training (--set data.vocabulary=FILE)"
    else:
        return known
    raise ConfigError(f"{problem}. {advice}, or use elmo finetune, which makes a vocabulary from both.")


def load_vocabulary(file: str, model: BiLMConfig) -> Vocabulary:
    """A vocabulary file with the model's markers."""
    return Vocabulary.load(file, begin_sentence=model.begin_sentence, end_sentence=model.end_sentence)


def check_markers(model: BiLMConfig, vocabulary: Vocabulary | None) -> None:
    """Refuse to train with other tokens around a sentence than the model is given later.

    `vocabulary`: None if the text gives it, with the model's tokens.
    """
    begin, end = model.begin_sentence, model.end_sentence
    if vocabulary is None and len({begin, end, SPECIALS[2]}) < 3:
        raise ConfigError(
            f"The tokens before a sentence, after it and for unknown words are {begin}, {end} and {SPECIALS[2]}; "
            "expected three different tokens. Change model.begin_sentence or model.end_sentence."
        )
    if vocabulary is not None and vocabulary.special_tokens[:2] != (begin, end):
        known = f"{vocabulary.begin_sentence} and {vocabulary.end_sentence}"
        raise ConfigError(
            f"The model reads {begin} and {end} around a sentence, but its vocabulary has {known}. If it was trained "
            "with those of the vocabulary, write them into its config.json (begin_sentence and end_sentence of bilm, "
            "and those of its characters, if it has a table of them); otherwise use a vocabulary with the model's."
        )


def _model(
    settings: PretrainSettings, corpus: Corpus, num_words: int, initial: PretrainedBiLM | None
) -> tuple[BiLM, WordSoftmax]:
    generator = torch.Generator().manual_seed(settings.training.seed)
    if initial is not None:
        bilm = BiLM(initial.config)
        bilm.load_state_dict(initial.state_dict())
        softmax = WordSoftmax.initialise(num_words, initial.config.lstm.projection_dim, generator)
        if initial.softmax is not None:
            check_sizes(num_words, len(initial.softmax.weight), source="the model")
            softmax = WordSoftmax(initial.softmax.weight.clone(), initial.softmax.bias.clone())
        return bilm, softmax
    bilm = BiLM(_complete(settings.model, corpus, num_words))
    initialise(bilm, generator)
    return bilm, WordSoftmax.initialise(num_words, bilm.config.lstm.projection_dim, generator)


def _complete(config: BiLMConfig, corpus: Corpus, num_words: int) -> BiLMConfig:
    """The config with what depends on the text: its code points and the number of its words."""
    characters, words = config.characters, config.word_embedding
    if characters is not None and characters.kind == "codepoints" and characters.table is None:
        characters = CharacterScheme.codepoints(corpus.characters(), characters.max_characters)
        # Spelled out, markers would consist of unknown characters in most texts.
        begin, end = config.begin_sentence, config.end_sentence
        table = replace(characters.ids, begin_sentence_token=begin, end_sentence_token=end)
        characters = replace(characters, table=table)
    if words is not None:
        if words.num_words not in (0, num_words):
            raise ConfigError(
                f"model.word_embedding.num_words is {words.num_words:,}, but the vocabulary has {num_words:,} words. "
                "Leave it out: it is taken from the text."
            )
        words = replace(words, num_words=num_words)
    return replace(config, characters=characters, word_embedding=words)
