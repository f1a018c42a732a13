/* An AA tree of heap nodes from a free list: insert, find, delete, walk. */
#include "../kernel.h"

enum { NODES = 800 };
struct node {
    struct node *left, *right;
    int level;
    uint32_t key;
    uint64_t value;
};
static struct node pool[NODES], *free_list;
static struct node bottom = {&bottom, &bottom, 0, 0, 0};

static void reset(void) {
    free_list = NULL;
    for (size_t i = 0; i < NODES; i++) {
        pool[i].right = free_list;
        free_list = &pool[i];
    }
}

static struct node *skew(struct node *t) {
    if (t->left->level != t->level || t == &bottom) return t;
    struct node *l = t->left;
    t->left = l->right;
    l->right = t;
    return l;
}

static struct node *split(struct node *t) {
    if (t->right->right->level != t->level || t == &bottom) return t;
    struct node *r = t->right;
    t->right = r->left;
    r->left = t;
    r->level++;
    return r;
}

static NOINLINE struct node *insert(struct node *t, uint32_t key, uint64_t value) {
    if (t == &bottom) {
        struct node *fresh = free_list;
        if (!fresh) return t;
        free_list = fresh->right;
        *fresh = (struct node){&bottom, &bottom, 1, key, value};
        return fresh;
    }
    if (key < t->key) t->left = insert(t->left, key, value);
    else if (key > t->key) t->right = insert(t->right, key, value);
    else t->value += value;
    return split(skew(t));
}

static NOINLINE struct node *delete(struct node *t, uint32_t key) {
    if (t == &bottom) return t;
    if (key < t->key) {
        t->left = delete(t->left, key);
    } else if (key > t->key) {
        t->right = delete(t->right, key);
    } else if (t->left == &bottom || t->right == &bottom) {
        struct node *rest = t->left == &bottom ? t->right : t->left;
        t->right = free_list;
        free_list = t;
        return rest;
    } else {
        struct node *heir = t->right;
        while (heir->left != &bottom) heir = heir->left;
        t->key = heir->key;
        t->value = heir->value;
        t->right = delete(t->right, heir->key);
    }
    if (t->left->level < t->level - 1 || t->right->level < t->level - 1) {
        t->level--;
        if (t->right->level > t->level) t->right->level = t->level;
        t = skew(t);
        t->right = skew(t->right);
        t = split(t);
        t->right = split(t->right);
    }
    return t;
}

static uint64_t find(const struct node *t, uint32_t key) {
    while (t != &bottom && t->key != key) t = key < t->key ? t->left : t->right;
    return t->value;
}

static NOINLINE uint64_t walk(const struct node *t, uint64_t sum) {
    if (t == &bottom) return sum;
    sum = walk(t->left, sum);
    sum = mix(sum, t->key);
    return walk(t->right, sum);
}

uint64_t kernel(uint64_t n) {
    uint64_t sum = 0;
    uint32_t seed = 31337u;
    for (uint64_t round = 0; round < n; round++) {
        struct node *root = &bottom;
        reset();
        for (int i = 0; i < 1000; i++) {
            uint32_t r = next_random(&seed);
            if (r % 4 == 0) root = delete(root, (r >> 8) % 1500);
            else root = insert(root, (r >> 8) % 1500, r);
            sum += find(root, (r >> 12) % 1500);
        }
        sum = walk(root, sum);
    }
    return sum;
}
