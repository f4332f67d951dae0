// Written by examples/page/choose_examples.py, which ranks candidates with the bundled model.
export const SENSES = [
  {
    "name": "left",
    "text": "She left the house early in the morning.\nThey left London and never came back.\n\nHe writes with his left hand.\nShe broke her left arm in the fall.",
    "word": 1
  },
  {
    "name": "bear",
    "text": "A brown bear ate all our honey.\nThe bear sleeps in its den through the winter.\n\nHe could not bear that noise any longer.\nThey had to bear the cost of the war.",
    "word": 2
  },
  {
    "name": "can",
    "text": "He opened a can of beans.\nShe drank a can of cold beer.\n\nShe can speak five languages.\nNobody can read his handwriting.",
    "word": 3
  },
  {
    "name": "saw",
    "text": "The carpenter keeps a saw and a hammer in the box.\nShe bought a new saw to cut the wood.\n\nWe saw him at the station.\nShe saw her brother in the crowd.",
    "word": 4
  },
  {
    "name": "play",
    "text": "The play was first performed in London.\nCritics praised the second act of the play.\n\nThey play football every Saturday.\nOur team will play the champions next week.",
    "word": 1
  },
  {
    "name": "bat",
    "text": "A bat flew out of the cave at night.\nA bat is not a bird, but it can fly.\n\nShe swung the bat and scored a run.\nThe batsman dropped his bat and left the field.",
    "word": 1
  },
  {
    "name": "park",
    "text": "There is a lake in the park near the zoo.\nThe city opened a new park in 1901.\n\nYou may not park your car here.\nShe had to park the truck behind the house.",
    "word": 6
  },
  {
    "name": "second",
    "text": "He waited for one second and fired.\nThe ball moves at forty metres a second.\n\nShe was the second wife of the king.\nIt was his second visit to Rome.",
    "word": 4
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
    "name": "a ___ there",
    "text": "Once upon a time there was a king.",
    "position": 3
  },
  {
    "name": "the ___ of",
    "text": "He was the son of a farmer and his wife.",
    "position": 3
  },
  {
    "name": "heart ___ at",
    "text": "He died of a heart attack at the age of 70.",
    "position": 5
  },
  {
    "name": "the ___ and",
    "text": "He opened the door and walked into the room.",
    "position": 3
  },
  {
    "name": "his ___ and",
    "text": "He shook his head and said nothing.",
    "position": 3
  }
];
export const WORDS = [
  {
    "name": "left",
    "word": "left"
  },
  {
    "name": "play",
    "word": "play"
  },
  {
    "name": "kind",
    "word": "kind"
  },
  {
    "name": "fair",
    "word": "fair"
  },
  {
    "name": "bank",
    "word": "bank"
  },
  {
    "name": "spring",
    "word": "spring"
  },
  {
    "name": "bat",
    "word": "bat"
  },
  {
    "name": "right",
    "word": "right"
  }
];
