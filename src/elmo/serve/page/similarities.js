// The similarities of all tokens of some sentences under any mix of one model's layers.
import { floats } from "./dom.js";

export class Similarities {
  /** `answer` is that of /senses; `senses` has the number of each sentence's sense. */
  constructor(model, answer, senses) {
    this.model = model;
    this.layers = answer.layers;
    this.texts = answer.texts;
    this.senses = senses;
    this.tokens = answer.texts.flatMap((tokens, sentence) => tokens.map((token) => ({ ...token, sentence })));
    this.products = floats(answer.products); // (token, layer, token, layer)
  }

  /** The number of the token at a place; models may split words differently. */
  find({ sentence, start }) {
    return this.tokens.findIndex((token) => token.sentence === sentence && token.start <= start && start < token.stop);
  }

  product(one, other, weights) {
    const count = this.tokens.length, layers = this.layers;
    let sum = 0;
    for (let l = 0; l < layers; l++) {
      if (!weights[l]) continue;
      for (let m = 0; m < layers; m++) sum += weights[l] * weights[m] * this.products[((one * layers + l) * count + other) * layers + m];
    }
    return sum;
  }

  similarity(one, other, { weights, gamma, measure }) {
    const value = this.product(one, other, weights);
    if (measure === "product") return gamma * gamma * value;
    return value / Math.sqrt(Math.max(this.product(one, one, weights) * this.product(other, other, weights), 1e-12));
  }

  /** Every layer alone, then the mix. */
  rows(weights, gamma, measure) {
    const total = weights.reduce((sum, weight) => sum + weight, 0);
    const alone = weights.map((_, layer) => ({
      name: layer ? `layer ${layer}` : "layer 0 (the word alone)", weights: weights.map((_, each) => Number(each === layer)), gamma: 1, measure,
    }));
    return [...alone, { name: "mix", weights: weights.map((weight) => (total ? weight / total : 0)), gamma, measure }];
  }

  /** Every two occurrences of a token's word, and whether they are in one sense. */
  pairs(word) {
    const spelled = (token) => token.text.toLowerCase();
    const found = this.tokens.map((token, number) => ({ ...token, token: number })).filter((token) => spelled(token) === spelled(this.tokens[word]));
    return found.flatMap((one, place) => found.slice(place + 1).map((other) => ({ one, other, same: this.senses[one.sentence] === this.senses[other.sentence] })));
  }

  /** Mean similarity of pairs in the same sense and in different ones; null where no pair is of the kind. */
  compareSenses(pairs, row) {
    return [true, false].map((same) => {
      const of = pairs.filter((pair) => pair.same === same).map((pair) => this.similarity(pair.one.token, pair.other.token, row));
      return of.length ? of.reduce((sum, value) => sum + value, 0) / of.length : null;
    });
  }
}

/** Layer 0 does not see the sentence, so it cannot tell senses apart: it starts without weight. */
export const firstWeights = (layers) => Array.from({ length: layers }, (_, layer) => Math.min(layer, 1));
