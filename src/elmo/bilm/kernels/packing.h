/* Packs matrices into panels, and converts float32 panels to other formats. */

static void pack_transposed(const elmo_packing *m, const int64_t *columns, float *packed)
{
    for (int64_t k = 0; k < m->inner; k++, packed += NR) {
        int64_t row = m->inner_order ? m->inner_order[k] : k;
        if (row < 0) {
            memset(packed, 0, NR * sizeof(float));
            continue;
        }
        const float *from = m->matrix + row * m->stride, *second = m->second ? m->second + row * m->second_stride : 0;
        if (columns[NR - 1] == columns[0] + NR - 1 && columns[NR - 1] < m->split)
            memcpy(packed, from + columns[0], NR * sizeof(float));
        else
            for (int j = 0; j < NR; j++)
                packed[j] = columns[j] < 0            ? 0.0f
                            : columns[j] < m->split ? from[columns[j]]
                                                    : second[columns[j] - m->split];
    }
}

static void pack(const elmo_packing *m, int64_t first_panel, int64_t last_panel)
{
    for (int64_t p = first_panel; p < last_panel; p++) {
        const int64_t *columns = m->columns + p * NR;
        float *packed = m->packed + p * m->inner * NR;
        if (m->transposed) {
            pack_transposed(m, columns, packed);
            continue;
        }
        for (int64_t k0 = 0; k0 < m->inner; k0 += LINE) { /* few terms at a time: the panel's lines stay in the cache */
            int64_t k1 = min64(k0 + LINE, m->inner);
            for (int j = 0; j < NR; j++) {
                const float *row = m->matrix + (columns[j] < 0 ? 0 : columns[j]) * m->stride;
                if (columns[j] < 0)
                    for (int64_t k = k0; k < k1; k++) packed[k * NR + j] = 0.0f;
                else
                    for (int64_t k = k0; k < k1; k++) packed[k * NR + j] = row[k];
            }
        }
    }
}

static void convert_to_int8(const float *packed, int64_t inner, int64_t num_panels, int8_t *panels, float *scale,
                             int32_t *correction)
{
    int64_t groups = ceil_div(inner, 4);
    memset(panels, 0, num_panels * groups * NR * 4);
    for (int64_t p = 0; p < num_panels; p++, packed += inner * NR)
        for (int j = 0; j < NR; j++) {
            int8_t *column = panels + (p * groups * NR + j) * 4;
            float most = 0.0f;
            int32_t total = 0;
            for (int64_t k = 0; k < inner; k++)
                most = fabsf(packed[k * NR + j]) > most ? fabsf(packed[k * NR + j]) : most;
            for (int64_t k = 0; k < inner; k++) {
                int32_t whole = most > 0.0f ? (int32_t)lrintf(packed[k * NR + j] * (127.0f / most)) : 0;
                column[k / 4 * NR * 4 + k % 4] = (int8_t)whole;
                total += whole;
            }
            scale[p * NR + j] = most / 127.0f;
            correction[p * NR + j] = total * (INT8_RANGE + 1);
        }
}

static void convert(const float *packed, int64_t inner, int64_t num_panels, int64_t format, void *panels, float *scale,
                    int32_t *correction)
{
    int64_t groups = ceil_div(inner, 2);
    uint16_t *to = panels;
    if (format == ELMO_INT8) convert_to_int8(packed, inner, num_panels, panels, scale, correction);
    if (format == ELMO_FLOAT16)
        for (int64_t i = 0; i < num_panels * inner * NR; i++) to[i] = to_fp16(packed[i]);
    if (format != ELMO_BFLOAT16) return;
    for (int64_t p = 0; p < num_panels; p++, packed += inner * NR, to += groups * NR * 2) {
        if (inner % 2) memset(to + (groups - 1) * NR * 2, 0, NR * 4);
        for (int64_t k = 0; k < inner; k++)
            for (int j = 0; j < NR; j++) to[(k / 2 * NR + j) * 2 + k % 2] = to_bf16(packed[k * NR + j]);
    }
}
