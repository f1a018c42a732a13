/* Shortest paths by a binary heap, flood fill on a grid, union-find components. */
#include "../kernel.h"

enum { NODES = 256, EDGES = 1024, W = 48 };
struct edge {
    uint16_t to, weight;
    int32_t next;
};
struct item {
    uint32_t distance;
    uint16_t node;
};
static struct edge edges[EDGES];
static int32_t head[NODES];
static uint32_t distance[NODES];
static struct item heap[EDGES + NODES];
static uint16_t leader[NODES];
static uint8_t grid[W][W];
static uint16_t queue[W * W];
static size_t heap_size;

static void push(uint32_t d, uint16_t node) {
    size_t at = heap_size++;
    for (; at && heap[(at - 1) / 2].distance > d; at = (at - 1) / 2) heap[at] = heap[(at - 1) / 2];
    heap[at] = (struct item){d, node};
}

static struct item pop(void) {
    struct item top = heap[0], last = heap[--heap_size];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < heap_size; at = child) {
        if (child + 1 < heap_size && heap[child + 1].distance < heap[child].distance) child++;
        if (last.distance <= heap[child].distance) break;
        heap[at] = heap[child];
    }
    heap[at] = last;
    return top;
}

static NOINLINE void shortest(uint16_t from) {
    for (int i = 0; i < NODES; i++) distance[i] = ~0u;
    heap_size = 0;
    distance[from] = 0;
    push(0, from);
    while (heap_size) {
        struct item top = pop();
        if (top.distance != distance[top.node]) continue;
        for (int32_t e = head[top.node]; e >= 0; e = edges[e].next) {
            uint32_t d = top.distance + edges[e].weight;
            if (d < distance[edges[e].to]) {
                distance[edges[e].to] = d;
                push(d, edges[e].to);
            }
        }
    }
}

static uint16_t find(uint16_t v) {
    while (leader[v] != v) v = leader[v] = leader[leader[v]];
    return v;
}

static NOINLINE int components(void) {
    int count = NODES;
    for (uint16_t i = 0; i < NODES; i++) leader[i] = i;
    for (uint16_t i = 0; i < NODES; i++)
        for (int32_t e = head[i]; e >= 0; e = edges[e].next) {
            uint16_t a = find(i), b = find(edges[e].to);
            if (a != b && edges[e].weight < 300) leader[a] = b, count--;
        }
    return count;
}

static NOINLINE int flood(int start) {
    static const int8_t dx[] = {1, -1, 0, 0}, dy[] = {0, 0, 1, -1};
    size_t first = 0, last = 0;
    queue[last++] = (uint16_t)start;
    grid[start / W][start % W] = 2;
    while (first < last) {
        int x = queue[first] % W, y = queue[first] / W;
        first++;
        for (int k = 0; k < 4; k++) {
            int nx = x + dx[k], ny = y + dy[k];
            if (nx < 0 || ny < 0 || nx >= W || ny >= W || grid[ny][nx]) continue;
            grid[ny][nx] = 2;
            queue[last++] = (uint16_t)(ny * W + nx);
        }
    }
    return (int)last;
}

uint64_t kernel(uint64_t n) {
    uint64_t sum = 0;
    uint32_t seed = 60013u;
    for (uint64_t round = 0; round < n; round++) {
        for (int i = 0; i < NODES; i++) head[i] = -1;
        for (int i = 0; i < EDGES; i++) {
            uint32_t r = next_random(&seed);
            edges[i] = (struct edge){(uint16_t)(r % NODES), (uint16_t)(r >> 22), head[r >> 8 & 255]};
            head[r >> 8 & 255] = i;
        }
        for (int i = 0; i < W * W; i++) grid[i / W][i % W] = next_random(&seed) % 3 == 0;
        shortest((uint16_t)(round % NODES));
        for (int i = 0; i < NODES; i += 5) sum = mix(sum, distance[i]);
        sum = mix(sum, (uint64_t)components());
        sum = mix(sum, (uint64_t)flood(W * W / 2));
    }
    return sum;
}
