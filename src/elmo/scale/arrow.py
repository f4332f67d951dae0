"""Arrow record batches of text -> record batches of vectors: what Ray, Spark, or a loop over a Parquet file calls.

    embedder = ArrowEmbedder(ArrowSettings(column="text", layers="average", dtype="float16"))
    for batch in embedder.map(pq.ParquetFile("in.parquet").iter_batches()):
        writer.write_batch(batch)

Rows come out in the order in which they came in, each with every column it had, and these behind them:

    tokens     list<string>                           left out when the text column holds tokens already, as are these:
    starts     list<int64>                            where each token begins and ends in the text, in characters
    stops      list<int64>
    vectors    list<fixed_size_list<float>[dim]>      one vector per token
    vector     fixed_size_list<float>[dim]            instead, when pooled
    layer_k    as `vectors` or `vector`               instead, one column per layer, for layers="all"

The text column holds strings, which are tokenized, or lists of strings, which are taken as tokens. A row without text
(null or empty) has no tokens: an empty list, or zeros when pooled. A row's vectors depend on the row alone, so any cut
of a corpus into batches and workers gives the same result. One batch in may be several out, which bounds the memory.

Left out: reading, writing, row ids and retries, which are the engine's; carried state, which would tie rows together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from elmo.bilm.device import choose_device
from elmo.embedding.embedder import DEFAULT_BATCH_TOKENS, Embedder, VectorType
from elmo.embedding.layers import LayerSpec, plain_layers
from elmo.embedding.pooling import Pooling
from elmo.embedding.writers.record import OutputLayout, Record
from elmo.errors import InputError, needs
from elmo.text.inputs.formats import RowOptions, choose_columns
from elmo.text.tokenizer import Offsets, tokenize

with needs("pyarrow", extra="parquet"):
    import pyarrow as pa

from elmo.embedding.writers.arrow import OFFSET_COLUMNS, sentence_schema, sentence_table, vector_columns


@dataclass(frozen=True)
class ArrowSettings:
    """All that a worker needs to know; small, and fit for pickling."""

    model: str | None = None
    """A path, a bundled name or a Hub name that every worker can open; none means the bundled model."""
    column: str | None = None
    """The column with strings or lists of tokens; default: the one called text, sentence or tokens, or the only one."""
    layers: LayerSpec = "all"
    pooling: Pooling | None = None
    dtype: VectorType = "float32"
    precision: str = "float32"
    """Of the model's weights in memory: float32, or faster and less exact, float16, bfloat16 or int8."""
    device: str | None = "cpu"
    """The device that the model runs on; none means a GPU if there is one."""
    tokenizer: str | None = None
    align: str | None = None
    """A language of the aligned models or the file of a mapping matrix, which every worker can open."""
    batch_tokens: int = DEFAULT_BATCH_TOKENS
    """Tokens computed at once."""
    max_bytes: int = 64 << 20
    """Vectors in one batch that comes out; a single longer row goes alone."""

    def __post_init__(self) -> None:
        # Workers keep their embedders by their settings, and a run's settings become JSON.
        object.__setattr__(self, "layers", plain_layers(self.layers))


class ArrowEmbedder:
    """Holds the open model: make one for each worker and keep it."""

    def __init__(self, settings: ArrowSettings) -> None:
        self.settings = settings
        device = choose_device(settings.device, precision=settings.precision)
        self.embedder = Embedder(
            settings.model, layers=settings.layers, pooling=settings.pooling, dtype=settings.dtype,
            precision=settings.precision, tokenizer=settings.tokenizer, align=settings.align,
            batch_tokens=settings.batch_tokens,
        )  # fmt: skip
        self.embedder.model.to(device)
        choice = self.embedder.layers
        self.layout = OutputLayout(
            num_layers=choice.num_layers if choice.form == "all" else None,
            dim=self.embedder.output_dim,
            pooled=settings.pooling is not None,
            dtype=self.embedder.dtype.name,
        )

    def fingerprint(self) -> str:
        """Of the model, and of the matrix that its vectors are mapped with, if any."""
        return "+".join(filter(None, (self.embedder.model.digest(), self.embedder.mapping_digest())))

    def schema(self, given: pa.Schema) -> pa.Schema:
        """The columns that come out for those that go in; engines ask before the first row."""
        added = self._added_fields(given)
        taken = {field.name for field in added} & set(given.names)
        if taken:
            raise InputError(
                f"The input has the columns {', '.join(sorted(taken))} already; the vectors need them. Rename them."
            )
        return pa.schema([*given, *added])

    def map(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Embed a stream of record batches; for Spark, use `elmo.scale.spark.embed_frame`."""
        for batch in batches:
            yield from self._embed(batch)

    def __call__(self, table: pa.Table) -> pa.Table:
        """Embed one table; Ray Data's `map_batches(..., batch_format="pyarrow")` takes this as it is."""
        return pa.Table.from_batches(list(self.map(table.to_batches())), self.schema(table.schema))

    def _added_fields(self, given: pa.Schema) -> list[pa.Field]:
        own = sentence_schema(self.layout)
        names = [] if self._holds_tokens(given) else ["tokens", *OFFSET_COLUMNS]
        return [own.field(name) for name in [*names, *vector_columns(self.layout)]]

    def _holds_tokens(self, given: pa.Schema) -> bool:
        name = self._column(given)
        kind = given.field(name).type
        if _is_string(kind) or pa.types.is_null(kind):  # a partition may happen to hold no text at all
            return False
        if (pa.types.is_list(kind) or pa.types.is_large_list(kind)) and _is_string(kind.value_type):
            return True
        raise InputError(f"The column {name!r} is {kind}; expected strings, or lists of strings (tokens).")

    def _column(self, given: pa.Schema) -> str:
        return str(choose_columns(RowOptions(self.settings.column), given.names, "The input").text)

    def _embed(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        schema = self.schema(batch.schema)
        added = [field.name for field in self._added_fields(batch.schema)]
        token_lists, offsets = self._token_lists(batch)
        start = 0
        for end in self._cuts(token_lists):
            given = batch.slice(start, end - start).columns
            yield pa.RecordBatch.from_arrays(
                [*given, *self._columns(token_lists[start:end], offsets[start:end], added)], schema=schema
            )
            start = end

    def _columns(self, token_lists: list[list[str]], offsets: list[Offsets | None], names: list[str]) -> list[pa.Array]:
        """A function of its own so that of all it makes only the columns are still there while a batch is written."""
        vectors = self.embedder.embed(token_lists)
        records = [Record(0, "", *row) for row in zip(token_lists, vectors, offsets, strict=True)]
        table = sentence_table(records, self.layout).combine_chunks()
        return [_one_chunk(table[name]) for name in names]

    def _token_lists(self, batch: pa.RecordBatch) -> tuple[list[list[str]], list[Offsets | None]]:
        column = self._column(batch.schema)
        try:
            values = batch.column(column).to_pylist()
        except UnicodeDecodeError as error:
            raise InputError(f"A text in the column {column!r} is not UTF-8 ({error}). Convert it first.") from error
        if self._holds_tokens(batch.schema):
            return [[token or "" for token in tokens or []] for tokens in values], [None] * len(values)
        split = [tokenize(text or "", self.embedder.tokenizer) for text in values]
        offsets: list[Offsets | None] = [[(token.start, token.stop) for token in tokens] for tokens in split]
        return [[token.text for token in tokens] for tokens in split], offsets

    def _cuts(self, token_lists: list[list[str]]) -> Iterator[int]:
        """Where to cut so that no part's vectors pass `max_bytes`; always the end, unless there are no rows."""
        per_vector = self.layout.dim * self.embedder.dtype.itemsize * (self.layout.num_layers or 1)
        held = 0
        for index, tokens in enumerate(token_lists):
            size = per_vector * (1 if self.layout.pooled else len(tokens))
            if held and held + size > self.settings.max_bytes:
                yield index
                held = 0
            held += size
        if token_lists:
            yield len(token_lists)


def _is_string(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
