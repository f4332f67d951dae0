"""Text or words -> the character ids of each word.

ELMo reads words letter by letter, so there is no vocabulary of tokens. A batch has

    input_ids        (batch, tokens)              1 for a word, 0 for padding
    attention_mask   (batch, tokens)
    character_ids    (batch, tokens, characters)  how each word is spelled; 0 for padding
    vocabulary_ids   (batch, tokens)              only for models with a table of words: the word's row, 0 for padding

1 is the id of `unk_token`, by which transformers' pipelines take a word's text from the sentence. Offsets and
`word_ids()` are there as with a fast tokenizer. Sentence markers are added by the model. Left out: pairs of texts,
overflowing tokens, `decode`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import BatchEncoding, PreTrainedTokenizer
from transformers.models.auto.tokenization_auto import get_tokenizer_config

from elmo.checkpoints import native
from elmo.checkpoints.detect import open_checkpoint
from elmo.checkpoints.pretrained import locate
from elmo.errors import InputError
from elmo.integrations.transformers.configuration import TOKENIZER_AUTO_MAP, write_remote_code
from elmo.settings import from_dict, to_dict
from elmo.text.characters import CharacterScheme
from elmo.text.indexer import TokenIndexer
from elmo.text.tokenizer import Token, tokenize
from elmo.text.vocabulary import Vocabulary

_CONFIG_FILE = "tokenizer_config.json"
_SETTINGS = (
    *("characters", "word_tokenizer", "max_word_characters", "vocabulary_markers"),
    *("model_max_length", "truncation_side"),
)
_WORD = 1


class ElmoEncoding(BatchEncoding):
    """What the tokenizer gives; `word_ids` aligns labels with tokens, as with a fast tokenizer."""

    def word_ids(self, batch_index: int = 0) -> list[int | None]:
        mask = self["attention_mask"]
        row = mask[batch_index] if len(mask) and hasattr(mask[0], "__len__") else mask
        return [index if int(real) else None for index, real in enumerate(row)]


class ElmoTokenizer(PreTrainedTokenizer):
    """Splits text as the model's training text was, and spells words; `is_split_into_words` takes words as they are."""

    vocab_files_names = {"vocab_file": native.VOCABULARY_FILE}  # noqa: RUF012 - the library's own declaration
    model_input_names = ["input_ids", "attention_mask", "character_ids", "vocabulary_ids"]  # noqa: RUF012
    padding_side = "right"
    _auto_map = TOKENIZER_AUTO_MAP

    def __init__(
        self,
        characters: dict[str, Any] | None = None,
        word_tokenizer: str = "ptb-like",
        vocab_file: str | Path | None = None,
        vocabulary_markers: dict[str, str] | None = None,
        max_word_characters: int | None = None,
        **settings: Any,
    ) -> None:
        """`characters`: the values of a `CharacterScheme`. `vocab_file`: the words of a model with a table of words."""
        self.characters, self.word_tokenizer = characters, word_tokenizer
        self.max_word_characters, self.vocabulary_markers = max_word_characters, vocabulary_markers
        vocabulary = None if vocab_file is None else Vocabulary.load(Path(vocab_file), **(vocabulary_markers or {}))
        scheme = None if characters is None else from_dict(CharacterScheme, characters)
        self.indexer = TokenIndexer(scheme, vocabulary, max_word_characters=max_word_characters)
        for name, default in (("pad_token", "<pad>"), ("unk_token", "<unk>")):
            settings.setdefault(name, default)
        super().__init__(
            characters=characters, word_tokenizer=word_tokenizer, max_word_characters=max_word_characters,
            vocabulary_markers=vocabulary_markers, **settings,
        )  # fmt: skip

    @classmethod
    def from_pretrained(cls, name: str | Path, *_: Any, **options: Any) -> ElmoTokenizer:
        """From a folder that a tokenizer or a model was saved in, or any name that `elmo.load` opens."""
        where = {key: options[key] for key in ("revision", "token", "local_files_only") if key in options}
        folder = locate(name, **where) / options.get("subfolder", "")
        given = {key: options[key] for key in _SETTINGS if key in options}
        if (folder / _CONFIG_FILE).is_file():
            saved = get_tokenizer_config(str(folder))
            settings = {key: saved[key] for key in _SETTINGS if saved.get(key) is not None}
            words = folder / native.VOCABULARY_FILE
            vocab_file = words if "vocabulary_markers" in settings else None
            return cls(**{**settings, **given}, vocab_file=vocab_file, name_or_path=str(name))
        checkpoint = native.read(folder) if native.matches(folder) else open_checkpoint(folder)
        config = checkpoint.config
        tokenizer = cls(
            **{
                "characters": None if config.characters is None else to_dict(config.characters),
                "word_tokenizer": config.tokenizer,
                **given,
            },
            name_or_path=str(name),
        )
        if config.word_embedding is not None and checkpoint.vocabulary is not None:
            tokenizer._use_vocabulary(checkpoint.vocabulary, config.word_embedding.max_characters)
        return tokenizer

    def _use_vocabulary(self, vocabulary: Vocabulary, max_word_characters: int | None) -> None:
        self.vocabulary_markers = native.special_tokens(vocabulary)
        self.max_word_characters = max_word_characters
        self.indexer = TokenIndexer(self.indexer.characters, vocabulary, max_word_characters=max_word_characters)

    @property
    def is_fast(self) -> bool:
        """True: what pipelines ask before they use offsets and words that are split already."""
        return True

    @property
    def vocab_size(self) -> int:
        return len(self.get_vocab())

    def get_vocab(self) -> dict[str, int]:
        return {"<pad>": 0, "<unk>": _WORD}

    def _convert_token_to_id(self, token: str) -> int:
        return self.get_vocab().get(token, _WORD)

    def _convert_id_to_token(self, index: int) -> str:
        return "<pad>" if index == 0 else "<unk>"

    def tokenize(self, text: str, **_: Any) -> list[str]:
        return [token.text for token in tokenize(text, self.word_tokenizer)]

    def save_vocabulary(self, save_directory: str, filename_prefix: str | None = None) -> tuple[str, ...]:
        """The words of a table of words, and the file of remote code."""
        write_remote_code(save_directory)
        if self.indexer.vocabulary is None:
            return ()
        file = Path(save_directory) / native.VOCABULARY_FILE
        self.indexer.vocabulary.save(file)
        return (str(file),)

    @classmethod
    def register_for_auto_class(cls, auto_class: str = "AutoTokenizer") -> None:
        """Nothing: saved folders name the installed package, so its source is not copied into them."""

    def _encode_plus(
        self,
        text: Any,
        text_pair: Any = None,
        *,
        padding_strategy: Any = "do_not_pad",
        truncation_strategy: Any = "do_not_truncate",
        max_length: int | None = None,
        is_split_into_words: bool = False,
        pad_to_multiple_of: int | None = None,
        return_tensors: Any = None,
        return_special_tokens_mask: bool = False,
        return_offsets_mapping: bool = False,
        return_length: bool = False,
        **_: Any,
    ) -> ElmoEncoding:
        if text_pair is not None:
            raise InputError("ELMo reads one text at a time; a pair was given. Encode both on their own.")
        is_batch = not isinstance(text, str) and not (is_split_into_words and not _holds_lists(text))
        examples = []
        for one in text if is_batch else [text]:
            tokens = self._tokens(one, is_split_into_words)
            if getattr(truncation_strategy, "value", truncation_strategy) != "do_not_truncate":
                cut = 0 if max_length is None else max(len(tokens) - max_length, 0)
                tokens = tokens[cut:] if self.truncation_side == "left" else tokens[: len(tokens) - cut]
            example = self._ids([token.text for token in tokens])
            if return_special_tokens_mask:
                example["special_tokens_mask"] = [0] * len(tokens)
            if return_offsets_mapping:
                example["offset_mapping"] = [(token.start, token.stop) for token in tokens]
            if return_length:
                example["length"] = len(tokens)
            examples.append(example)
        columns = {key: [example[key] for example in examples] for key in (examples[0] if examples else {})}
        padded: Any = columns
        if examples:
            padding = getattr(padding_strategy, "value", padding_strategy)
            padded = self.pad(columns, padding=padding, max_length=max_length, pad_to_multiple_of=pad_to_multiple_of)
        data = dict(padded) if is_batch or return_tensors else {key: value[0] for key, value in padded.items()}
        return ElmoEncoding(data, tensor_type=return_tensors)

    def _tokens(self, text: Any, is_split: bool) -> list[Token]:
        if is_split:
            if wrong := [word for word in text if not isinstance(word, str)]:
                raise InputError(f"A word is {type(wrong[0]).__name__} ({str(wrong[0])[:40]!r}); expected a string.")
            return [Token(word, 0, len(word)) for word in text]
        if not isinstance(text, str):
            raise InputError(
                f"A text is {type(text).__name__}; expected a string. For lists of words give is_split_into_words=True."
            )
        return tokenize(text, self.word_tokenizer)

    def _ids(self, words: list[str]) -> dict[str, Any]:
        ids: dict[str, Any] = {"input_ids": [_WORD] * len(words), "attention_mask": [1] * len(words)}
        scheme, vocabulary = self.indexer.characters, self.indexer.vocabulary
        if scheme is not None:
            ids["character_ids"] = [scheme.encode_word(word) for word in words]
        if vocabulary is not None:
            cut = self.max_word_characters
            ids["vocabulary_ids"] = [vocabulary.id_of(word[:cut]) + 1 for word in words]
        return ids

    def _pad(self, encoded_inputs: Any, *arguments: Any, **options: Any) -> dict[str, Any]:
        """As the library does, always on the right, and the ids of characters and words as well."""
        padded: dict[str, Any] = super()._pad(encoded_inputs, *arguments, **{**options, "padding_side": "right"})
        scheme = self.indexer.characters
        fillers = {"vocabulary_ids": 0, "offset_mapping": (0, 0)}
        if scheme is not None:
            fillers["character_ids"] = [0] * scheme.max_characters
        for key, filler in fillers.items():
            if key in padded:
                missing = len(padded["input_ids"]) - len(padded[key])
                padded[key] = list(padded[key]) + [filler] * missing
        return padded


def _holds_lists(words: Any) -> bool:
    return len(words) > 0 and not isinstance(words[0], str)
