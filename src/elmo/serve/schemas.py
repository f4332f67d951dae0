"""The bodies of requests: TEI's, OpenAI's and our own. The answers are in the files of the routes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr


def _refuse_token_ids(value: Any) -> Any:
    if isinstance(value, list) and any(isinstance(item, int | list) and not isinstance(item, bool) for item in value):
        raise ValueError(
            "token ids are not accepted; send a string or a list of strings "
            "(LangChain: OpenAIEmbeddings(check_embedding_ctx_length=False))"
        )
    return value


Input = Annotated[StrictStr | list[StrictStr], BeforeValidator(_refuse_token_ids)]
LARGEST_WEIGHT = 1e6
"""The limit of a layer's weight, so that no vector becomes infinite."""
LayerWeight = Annotated[StrictInt | StrictFloat, Field(ge=-LARGEST_WEIGHT, le=LARGEST_WEIGHT, allow_inf_nan=False)]
Layers = StrictInt | Annotated[list[LayerWeight], Field(max_length=64)] | Annotated[StrictStr, Field(max_length=500)]
Dimensions = Annotated[StrictInt, Field(ge=1)]


class _Body(BaseModel):
    # Clients of other servers send fields of those servers (pooling, user); they are ignored.
    model_config = ConfigDict(extra="ignore")


class _Texts(_Body):
    inputs: Input

    @property
    def texts(self) -> list[str]:
        return [self.inputs] if isinstance(self.inputs, str) else self.inputs


class _Inputs(_Texts):
    truncate: StrictBool | None = False
    truncation_direction: Literal["left", "right", "Left", "Right"] | None = "right"
    prompt_name: StrictStr | None = None

    @property
    def from_left(self) -> bool:
        """Truncation removes the beginning."""
        return (self.truncation_direction or "right").lower() == "left"


class EmbedBody(_Inputs):
    normalize: StrictBool | None = True
    dimensions: Dimensions | None = None
    encoding_format: Literal["float"] | None = None


class EmbedAllBody(_Inputs):
    pass


class EmbedLayersBody(_Inputs):
    layers: Layers = "all"


class _ModelBody(_Body):
    model: StrictStr | None = Field(None, description="The model, or the one of --compare; default: the first.")


class TokenizeBody(_ModelBody, _Texts):
    add_special_tokens: StrictBool | None = True


class SimilarityInputs(_Body):
    source_sentence: StrictStr
    sentences: list[StrictStr]


class SimilarityBody(_Body):
    inputs: SimilarityInputs


class OpenAIBody(_Texts):
    inputs: Input = Field(alias="input")
    model: StrictStr | None = None
    user: StrictStr | None = None
    encoding_format: Literal["float", "base64"] | None = "float"
    dimensions: Dimensions | None = None


class SensesBody(_ModelBody, _Texts):
    pass


class NeighboursBody(_ModelBody):
    inputs: StrictStr
    position: Annotated[StrictInt, Field(ge=0, description="The token's index, from 0.")]
    number: Annotated[StrictInt, Field(ge=1, le=100)] = 10


class MapBody(_ModelBody):
    word: Annotated[StrictStr, Field(max_length=500)]
    inputs: list[StrictStr] | None = Field(None, description="Sentences to search; default: the indexed corpus.")
    own: list[StrictStr] = Field([], description="Sentences to add to those; `own` of the answer tells their points.")
    clusters: Annotated[StrictInt, Field(ge=1, le=8)] = 2
    limit: Annotated[StrictInt, Field(ge=3, le=500)] = 200


class FillBody(_ModelBody):
    inputs: StrictStr
    position: Annotated[StrictInt, Field(ge=0, description="The token's index, from 0.")]
    number: Annotated[StrictInt, Field(ge=1, le=100)] = 10


class TaskBody(_Body):
    inputs: StrictStr = Field(description="In the form that GET /tasks gives for the task.")
