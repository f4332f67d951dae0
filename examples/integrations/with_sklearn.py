"""scikit-learn: ELMo vectors in a pipeline, with the layers chosen by cross-validation."""

from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from elmo.integrations.sklearn import ElmoVectorizer

texts = [
    "The film was a delight from start to finish.",
    "A warm, clever and funny story.",
    "I loved every minute of it.",
    "What a wonderful cast!",
    "The plot was dull and the jokes fell flat.",
    "I left before the end, bored to tears.",
    "A cold, clumsy and tedious mess.",
    "What a waste of a good cast!",
]
liked = [1, 1, 1, 1, 0, 0, 0, 0]

pipeline = make_pipeline(ElmoVectorizer(pooling="mean"), LogisticRegression(max_iter=1000))
search = GridSearchCV(pipeline, {"elmovectorizer__layers": ["average", "top", 0, "concat"]}, cv=2).fit(texts, liked)
print("best layers:", search.best_params_["elmovectorizer__layers"])
print("on new texts:", search.predict(["A funny and warm film.", "Dull and cold."]).tolist())
