/* The tree of distinct sentence beginnings: rows of a batch that can share work.

   The hidden state after a word depends only on the words before it, and sentences often share a beginning: all start
   with the same marker, many with "The" after it; read backward, nearly all start with the marker and a full stop.
   So a direction runs over the tree of distinct prefixes: a node is a word after a parent node, and level t holds the
   nodes that end at step t.  Rows with different initial states share nothing; the tree is then the batch itself. */

/* Memory allocated piece by piece; without a base, only the bytes are counted. */
typedef struct {
    char *base;
    int64_t used;
} arena;

static void *carve(arena *memory, int64_t bytes)
{
    void *start = memory->base ? memory->base + memory->used : 0;
    memory->used += ceil_div(bytes, LINE) * LINE;
    return start;
}

typedef struct {
    int64_t num_nodes, num_levels, widest;
    int64_t *level;  /* [num_levels + 1]: first node of each level */
    int64_t *word;   /* [num_nodes] */
    int64_t *parent; /* [num_nodes]: within the level before; at level 0, a row's number in `rows` */
    int64_t *node;   /* [num_rows, num_levels]: the node of a row's step */
} prefix_tree;

/* Steps of a row.  The last token is not read if neither its vector nor the state after it is needed. */
INLINE int64_t row_steps(const elmo_direction *d, int64_t row)
{
    int64_t length = d->lengths[row];
    return d->trim && !d->hidden_out && length ? length - 1 : length;
}

static int64_t num_tokens(const elmo_direction *d, int64_t *longest)
{
    int64_t tokens = 0;
    *longest = 0;
    for (int64_t r = 0; r < d->num_rows; r++) {
        int64_t length = row_steps(d, d->rows[r]);
        tokens += length;
        if (length > *longest) *longest = length;
    }
    return tokens;
}

static int64_t hash_slots(int64_t rows)
{
    int64_t slots = 4;
    while (slots < 2 * rows) slots *= 2;
    return slots;
}

INLINE int64_t word_at(const elmo_direction *d, int64_t row, int64_t step)
{
    int64_t place = d->reverse ? d->lengths[row] - 1 - step : step;
    return d->positions[row * d->steps + place];
}

/* Whether all rows start from the same state. */
INLINE int one_state(const elmo_direction *d)
{
    return !d->hidden_in || (d->hidden_in_row == 0 && d->cell_in_row == 0);
}

/* Builds the tree; with an arena that only counts bytes, just lays out its arrays. */
static void build_tree(const elmo_direction *d, arena *memory, prefix_tree *tree)
{
    int64_t tokens = num_tokens(d, &tree->num_levels), slots = hash_slots(d->num_rows);
    tree->level = carve(memory, (tree->num_levels + 1) * sizeof(int64_t));
    tree->word = carve(memory, tokens * sizeof(int64_t));
    tree->parent = carve(memory, tokens * sizeof(int64_t));
    tree->node = carve(memory, d->num_rows * tree->num_levels * sizeof(int64_t));
    int64_t *table = carve(memory, slots * sizeof(int64_t)), *at = carve(memory, d->num_rows * sizeof(int64_t));
    if (!memory->base) return;
    tree->widest = 0;
    for (int64_t r = 0; r < d->num_rows; r++) at[r] = one_state(d) ? 0 : r;
    int64_t count = 0;
    for (int64_t t = 0; t < tree->num_levels; t++) {
        int64_t first = tree->level[t] = count;
        memset(table, -1, slots * sizeof(int64_t));
        for (int64_t r = 0; r < d->num_rows; r++) {
            int64_t row = d->rows[r];
            if (row_steps(d, row) <= t) continue;
            int64_t word = word_at(d, row, t);
            uint64_t key = ((uint64_t)word * 0x9E3779B97F4A7C15u) ^ ((uint64_t)at[r] * 0xC2B2AE3D27D4EB4Fu);
            int64_t slot = (key ^ key >> 29) & (slots - 1);
            while (table[slot] >= 0 && (tree->word[table[slot]] != word || tree->parent[table[slot]] != at[r]))
                slot = (slot + 1) & (slots - 1);
            if (table[slot] < 0) {
                tree->word[count] = word;
                tree->parent[count] = at[r];
                table[slot] = count++;
            }
            tree->node[r * tree->num_levels + t] = table[slot];
            at[r] = table[slot] - first;
        }
        if (count - first > tree->widest) tree->widest = count - first;
    }
    tree->level[tree->num_levels] = tree->num_nodes = count;
}
