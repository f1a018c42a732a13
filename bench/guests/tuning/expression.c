/* A recursive-descent calculator: tokens, syntax tree, constant folding, evaluation with variables. */
#include "../kernel.h"

static const char *const sources[] = {
    "1 + 2 * (3 - x) / 4", "(a + b) * (a - b) - a * a + b * b", "((((((x))))))*7%5 + -(-3) - (2 << 3 >> 1)",
    "a < b ? a * x + 1 : b - (x ? 10 : 20)", "12345 % 67 * 89 + 1000000 / (x + 1) - 3 * (2 + 5 * (7 - 11))",
};
struct node {
    char op; /* 'n' number, 'v' variable, otherwise the operator */
    int64_t value;
    struct node *left, *right, *other;
};
struct parser {
    const char *at;
    int used;
};
static struct node nodes[256];
static struct node *expression(struct parser *p, int level);

static struct node *make(struct parser *p, char op, struct node *l, struct node *r, int64_t value) {
    struct node *n = &nodes[p->used++ & 255];
    *n = (struct node){op, value, l, r, NULL};
    return n;
}

static char peek(struct parser *p) {
    while (*p->at == ' ') p->at++;
    return *p->at;
}

static int accept(struct parser *p, char c) {
    if (peek(p) != c) return 0;
    p->at++;
    return 1;
}

static struct node *primary(struct parser *p) {
    char c = peek(p);
    if (accept(p, '(')) {
        struct node *inner = expression(p, 0);
        accept(p, ')');
        return inner;
    }
    if (accept(p, '-')) return make(p, '-', make(p, 'n', NULL, NULL, 0), primary(p), 0);
    if (c >= '0' && c <= '9') {
        int64_t v = 0;
        for (; *p->at >= '0' && *p->at <= '9'; p->at++) v = v * 10 + (*p->at - '0');
        return make(p, 'n', NULL, NULL, v);
    }
    p->at++;
    return make(p, 'v', NULL, NULL, c);
}

static int level_of(char c) {
    switch (c) {
    case '?': return 1;
    case '<': return 2;
    case '>': return 2;
    case '+': case '-': return 3;
    case '*': case '/': case '%': return 4;
    default: return 0;
    }
}

static NOINLINE struct node *expression(struct parser *p, int level) {
    struct node *left = primary(p);
    for (;;) {
        char op = peek(p);
        int mine = level_of(op);
        if (mine <= level) return left;
        p->at++;
        if ((op == '<' || op == '>') && *p->at == op) {
            p->at++;
            op = op == '<' ? 'l' : 'r';
        }
        struct node *right = expression(p, op == '?' ? 0 : mine);
        left = make(p, op, left, right, 0);
        if (op == '?' && accept(p, ':')) left->other = expression(p, 0);
    }
}

static int64_t apply(char op, int64_t a, int64_t b) {
    switch (op) {
    case '+': return a + b;
    case '-': return a - b;
    case '*': return a * b;
    case '/': return b ? a / b : 0;
    case '%': return b ? a % b : 0;
    case '<': return a < b;
    case '>': return a > b;
    case 'l': return (int64_t)((uint64_t)a << (b & 63));
    default: return a >> (b & 63);
    }
}

static NOINLINE void fold(struct node *n) {
    if (!n || n->op == 'n' || n->op == 'v') return;
    fold(n->left), fold(n->right), fold(n->other);
    if (n->op != '?' && n->left->op == 'n' && n->right->op == 'n') {
        n->value = apply(n->op, n->left->value, n->right->value);
        n->op = 'n';
    }
}

static NOINLINE int64_t evaluate(const struct node *n, const int64_t *variables) {
    if (n->op == 'n') return n->value;
    if (n->op == 'v') return variables[n->value & 31];
    if (n->op == '?') return evaluate(evaluate(n->left, variables) ? n->right : n->other, variables);
    return apply(n->op, evaluate(n->left, variables), evaluate(n->right, variables));
}

uint64_t kernel(uint64_t n) {
    uint64_t sum = 0;
    int64_t variables[32] = {0};
    for (uint64_t round = 0; round < n; round++)
        for (size_t i = 0; i < COUNT(sources); i++) {
            struct parser p = {sources[i], 0};
            struct node *tree = expression(&p, 0);
            fold(tree);
            for (int64_t x = 0; x < 6; x++) {
                variables['x' & 31] = x;
                variables['a' & 31] = x * 17 + (int64_t)round;
                variables['b' & 31] = 40 - x;
                sum = mix(sum, (uint64_t)evaluate(tree, variables));
            }
        }
    return sum;
}
