// What happens to logits beside the draw: the changes that a request asks for,
// the rows that log probabilities are taken of, and those themselves. Part of
// body.h, after the sampler, whose passes it uses; ref/logits.go defines it.

static sampler sampler_of(const gk_op *op, int row, gk_worker *wk) {
	sampler s = {.x = op->x.data + row * op->x.stride, .n = op->x.cols, .blocks = gk_ceil(op->x.cols, BLOCK)};
	s.list = (cand *)wk->scratch;
	s.pieces = (uint64_t *)(s.list + s.blocks * BLOCK);
	s.block_top = (float *)(s.pieces + gk_ceil(s.n, PIECE));
	s.copy = s.block_top + s.blocks;
	return s;
}

static int has_distribution(sampler *s) { return find_tops(s) && s->top != INFINITY && s->top != -INFINITY; }

// forbid makes a logit −Inf, but keeps a NaN.
INLINE float forbid(float x) { return x != x ? x : -INFINITY; }

INLINE float *logit_of(const sampler *s, int32_t id, float *none) {
	return id >= 0 && id < s->n ? s->copy + id : none;
}

// change puts a changed copy of the row in its place, if there is anything to
// change. The operations are those of the reference, each rounded by itself.
static void change(sampler *s, const gk_sampling *p) {
	if (!p->changes)
		return;
	float *x = s->copy, none = 0;
	if (p->allowed) {
		for (int i = 0; i < s->n; i++)
			x[i] = forbid(s->x[i]);
		for (int i = 0; i < p->num_allowed; i++)
			if (p->allowed[i] >= 0 && p->allowed[i] < s->n)
				x[p->allowed[i]] = s->x[p->allowed[i]];
	} else {
		memcpy(x, s->x, sizeof *x * s->n);
	}
	s->x = x;
	for (int i = 0; i < p->num_banned; i++) {
		float *v = logit_of(s, p->banned[i], &none);
		*v = forbid(*v);
	}
	for (int i = 0; i < p->num_bias; i++)
		*logit_of(s, p->bias[i].id, &none) += p->bias[i].bias;
	for (int i = 0; i < p->num_seen; i++) {
		float *v = logit_of(s, p->seen[i].id, &none), y = *v;
		if (p->repetition != 0)
			y = y > 0 ? y / p->repetition : y * p->repetition;
		float often = p->frequency * (float)p->seen[i].output;
		y -= often;
		if (p->seen[i].output > 0)
			y -= p->presence;
		*v = y;
	}
}

// GK_PROCESS: x[row] = what GK_SAMPLE would draw from.
static void run_process(gk_op *op, int row, gk_worker *wk) {
	const gk_sampling *p = &op->sampling[row];
	sampler s = sampler_of(op, row, wk);
	float *out = op->x.data + row * op->x.stride;
	change(&s, p);
	if (!has_distribution(&s) || !(p->temperature > 0)) {
		memmove(out, s.x, sizeof *out * s.n);
		return;
	}
	s.temperature = p->temperature;
	s.min_p = p->min_p > 0 ? (p->min_p < 1 ? p->min_p : 1) : 0;
	if ((p->top_k > 0 && p->top_k < s.n) || p->top_p < 1) {
		int n = filter(&s, p);
		for (int i = 0; i < s.n; i++)
			out[i] = -INFINITY;
		for (int i = 0; i < n; i++)
			out[s.list[i].id] = of_key(s.list[i].key) / p->temperature;
		return;
	}
	for (int i = 0; i < s.n; i += 16) {
		float w[16];
		v_store(w, probabilities(&s, logits_at(&s, i)));
		for (int j = 0; j < 16 && i + j < s.n; j++)
			out[i + j] = s.min_p > 0 && w[j] == 0 ? -INFINITY : s.x[i + j] / p->temperature;
	}
}

static int before(const cand *a, const cand *b) { return a->key != b->key ? a->key > b->key : a->id < b->id; }

// sift_cand moves c[i] down a heap whose root is the last in order.
static void sift_cand(cand *c, int i, int n) {
	for (int k; (k = 2 * i + 1) < n; i = k) {
		if (k + 1 < n && before(&c[k], &c[k + 1]))
			k++;
		if (!before(&c[i], &c[k]))
			return;
		cand t = c[i];
		c[i] = c[k];
		c[k] = t;
	}
}

static void sort_cands(cand *c, int n) {
	for (int i = n / 2 - 1; i >= 0; i--)
		sift_cand(c, i, n);
	for (int i = n - 1; i > 0; i--) {
		cand t = c[0];
		c[0] = c[i];
		c[i] = t;
		sift_cand(c, 0, i);
	}
}

// most_likely lists the k highest logits in order.
static void most_likely(sampler *s, int k) {
	float low = bound(s, k);
	int n = 0;
	for (int b = 0; b < s->blocks; b++) {
		if (!(s->block_top[b] >= low))
			continue;
		for (int i = b * BLOCK; i < (b + 1) * BLOCK && i < s->n; i++) {
			float x = s->x[i] + 0.0f; // −0 → 0
			if (x >= low)
				s->list[n++] = (cand){i, key_of(x), 1};
		}
	}
	if (k < n)
		n = top_select(s->list, n, k, 0);
	sort_cands(s->list, n);
}

// GK_LOGPROBS: logprobs[i] of row logprobs[i].row of x, where idx was chosen.
static void run_logprobs(gk_op *op, int i, gk_worker *wk) {
	gk_logprobs *q = &op->logprobs[i];
	sampler s = sampler_of(op, q->row, wk);
	int32_t chosen = q->ids[0] = op->idx.data[q->row];
	int ok = has_distribution(&s);
	q->rank = 1;
	q->mass = 0;
	if (ok) {
		s.temperature = 1;
		q->mass = total(&s);
		q->top = s.top;
		if (chosen >= 0 && chosen < s.n) {
			int32_t n = 0;
			float x = s.x[chosen];
			for (int j = 0; j < s.n; j++)
				n += s.x[j] >= x;
			q->rank = n;
		}
	}
	if (ok && q->k > 0)
		most_likely(&s, q->k);
	for (int j = 1; j <= q->k; j++)
		q->ids[j] = ok ? (int32_t)s.list[j - 1].id : j - 1;
	for (int j = 0; j < q->n; j++)
		q->logits[j] = q->ids[j] >= 0 && q->ids[j] < s.n ? s.x[q->ids[j]] : NAN;
}
