// Written by examples/page/choose_examples.py, which ranks candidates with the bundled model.
export const SENSES = [
  {
    "name": "left",
    "text": "She left the house early in the morning.\nThey left London and never came back.\n\nHe writes with his left hand.\nShe broke her left arm in the fall.",
    "word": 1
  },
  {
    "name": "bear",
    "text": "A brown bear ate all our honey.\nThe bear sleeps in its den through the winter.\n\nHe could not bear that noise any longer.\nShe could not bear to look at him.",
    "word": 2
  },
  {
    "name": "bat",
    "text": "A bat flew out of the cave at night.\nA bat is not a bird, but it can fly.\n\nShe swung the bat and scored a run.\nThe batsman dropped his bat and left the field.",
    "word": 1
  },
  {
    "name": "play",
    "text": "She wrote a play about her grandmother.\nCritics praised the second act of the play.\n\nThey play football every Saturday.\nOur team will play the champions next week.",
    "word": 3
  },
  {
    "name": "saw",
    "text": "The carpenter keeps a saw and a hammer in the box.\nShe bought a new saw to cut the wood.\n\nWe saw him at the station.\nShe saw her brother in the crowd.",
    "word": 4
  },
  {
    "name": "second",
    "text": "It turns ten times per second.\nThe ball moves at forty metres a second.\n\nShe was the second wife of the king.\nIt was his second visit to Rome.",
    "word": 5
  },
  {
    "name": "can",
    "text": "She drank a can of cold beer.\nThe dog knocked over a can of paint.\n\nShe can speak five languages.\nNobody can read his handwriting.",
    "word": 3
  },
  {
    "name": "rose",
    "text": "He gave her a red rose.\nShe wore a white rose in her hair.\n\nPrices rose sharply last year.\nThe number of students rose to five hundred.",
    "word": 5
  }
];
export const FILLS = [
  {
    "name": "World ___ II",
    "text": "World War II ended in 1945.",
    "position": 1
  },
  {
    "name": "Nobel ___ in",
    "text": "He won the Nobel Prize in Physics.",
    "position": 4
  },
  {
    "name": "hundred ___ old",
    "text": "It is more than a hundred years old.",
    "position": 6
  },
  {
    "name": "the ___ of",
    "text": "He was the son of a farmer and his wife.",
    "position": 3
  },
  {
    "name": "a ___ there",
    "text": "Once upon a time there was a king.",
    "position": 3
  },
  {
    "name": "the ___ and",
    "text": "He opened the door and walked into the room.",
    "position": 3
  },
  {
    "name": "to ___ for",
    "text": "He was sentenced to death for murder.",
    "position": 4
  },
  {
    "name": "first ___ to",
    "text": "She was the first woman to win the prize.",
    "position": 4
  }
];
export const WORDS = [
  {
    "name": "match",
    "word": "match"
  },
  {
    "name": "left",
    "word": "left"
  },
  {
    "name": "fair",
    "word": "fair"
  },
  {
    "name": "play",
    "word": "play"
  },
  {
    "name": "well",
    "word": "well"
  },
  {
    "name": "right",
    "word": "right"
  },
  {
    "name": "spring",
    "word": "spring"
  },
  {
    "name": "bank",
    "word": "bank"
  }
];
