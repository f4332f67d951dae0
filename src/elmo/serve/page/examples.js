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
    "name": "kind",
    "text": "What kind of music do you like?\nThis kind of fish lives in deep water.\n\nShe was kind to her old neighbours.\nThey were very kind and helpful to us.",
    "word": 1
  },
  {
    "name": "saw",
    "text": "He cut the branch with a saw.\nThe carpenter keeps a saw and a hammer in the box.\n\nWe saw him at the station.\nThey saw a ship on the horizon.",
    "word": 6
  },
  {
    "name": "can",
    "text": "He opened a can of beans.\nShe drank a can of cold beer.\n\nShe can speak five languages.\nNobody can read his handwriting.",
    "word": 3
  },
  {
    "name": "rose",
    "text": "He gave her a red rose.\nShe wore a white rose in her hair.\n\nPrices rose sharply last year.\nThe number of students rose to five hundred.",
    "word": 5
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
    "name": "his ___ and",
    "text": "He shook his head and said nothing.",
    "position": 3
  },
  {
    "name": "the ___ and",
    "text": "He opened the door and walked into the room.",
    "position": 3
  },
  {
    "name": "the ___ of",
    "text": "He was the son of a farmer and his wife.",
    "position": 3
  },
  {
    "name": "her ___ and",
    "text": "She closed her eyes and fell asleep.",
    "position": 3
  },
  {
    "name": "a ___ there",
    "text": "Once upon a time there was a king.",
    "position": 3
  }
];
export const WORDS = [
  {
    "name": "left",
    "word": "left"
  },
  {
    "name": "well",
    "word": "well"
  },
  {
    "name": "fair",
    "word": "fair"
  },
  {
    "name": "kind",
    "word": "kind"
  },
  {
    "name": "play",
    "word": "play"
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
