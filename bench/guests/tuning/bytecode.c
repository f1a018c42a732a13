/* A stack machine with locals and calls, running a prime counter and a recursive Fibonacci. */
#include "../kernel.h"

enum op { PUSH, LOAD, STORE, ADD, SUB, MUL, MOD, LESS, EQUAL, JUMP, JUMP_ZERO, CALL, RETURN, DUP, SWAP, HALT };

static int16_t code[128];
static int length;

static int emit(int op) {
    code[length] = (int16_t)op;
    return length++;
}

static int emit2(int op, int argument) {
    emit(op);
    return emit(argument);
}

static int build_primes(int limit) {
    int start = length;
    emit2(PUSH, 2), emit2(STORE, 0), emit2(PUSH, 0), emit2(STORE, 2);
    int outer = length;
    emit2(LOAD, 0), emit2(PUSH, limit), emit(LESS);
    int done = emit2(JUMP_ZERO, 0);
    emit2(PUSH, 2), emit2(STORE, 1);
    int inner = length;
    emit2(LOAD, 0), emit2(LOAD, 1), emit(DUP), emit(MUL), emit(LESS);
    int divide = emit2(JUMP_ZERO, 0);
    emit2(LOAD, 2), emit2(PUSH, 1), emit(ADD), emit2(STORE, 2);
    int next = length;
    emit2(LOAD, 0), emit2(PUSH, 1), emit(ADD), emit2(STORE, 0), emit2(JUMP, outer);
    code[divide] = (int16_t)length;
    emit2(LOAD, 0), emit2(LOAD, 1), emit(MOD), emit2(JUMP_ZERO, next);
    emit2(LOAD, 1), emit2(PUSH, 1), emit(ADD), emit2(STORE, 1), emit2(JUMP, inner);
    code[done] = (int16_t)length;
    emit2(LOAD, 2), emit(HALT);
    return start;
}

static int build_fibonacci(int argument) {
    int start = length;
    emit2(PUSH, argument);
    int call = emit2(CALL, 0);
    emit(HALT);
    code[call] = (int16_t)length;
    int self = length;
    emit(DUP), emit2(PUSH, 2), emit(LESS);
    int recurse = emit2(JUMP_ZERO, 0);
    emit(RETURN);
    code[recurse] = (int16_t)length;
    emit(DUP), emit2(PUSH, 1), emit(SUB), emit2(CALL, self);
    emit(SWAP), emit2(PUSH, 2), emit(SUB), emit2(CALL, self), emit(ADD), emit(RETURN);
    return start;
}

static NOINLINE int64_t run(int pc, uint64_t budget) {
    int64_t stack[64], locals[8] = {0}, *top = stack;
    int returns[32], depth = 0;
    while (budget--) {
        switch ((enum op)code[pc++]) {
        case PUSH: *top++ = code[pc++]; break;
        case LOAD: *top++ = locals[code[pc++]]; break;
        case STORE: locals[code[pc++]] = *--top; break;
        case ADD: top--; top[-1] += *top; break;
        case SUB: top--; top[-1] -= *top; break;
        case MUL: top--; top[-1] *= *top; break;
        case MOD: top--; top[-1] %= *top; break;
        case LESS: top--; top[-1] = top[-1] < *top; break;
        case EQUAL: top--; top[-1] = top[-1] == *top; break;
        case JUMP: pc = code[pc]; break;
        case JUMP_ZERO: pc = *--top ? pc + 1 : code[pc]; break;
        case CALL: returns[depth++ & 31] = pc + 1; pc = code[pc]; break;
        case RETURN: pc = returns[--depth & 31]; break;
        case DUP: *top = top[-1]; top++; break;
        case SWAP: { int64_t t = top[-1]; top[-1] = top[-2]; top[-2] = t; break; }
        case HALT: return top[-1];
        }
    }
    return -1;
}

uint64_t kernel(uint64_t n) {
    uint64_t sum = 0;
    length = 0;
    int prime_start = build_primes(300), fibonacci_start = build_fibonacci(14);
    for (uint64_t round = 0; round < n; round++) {
        sum = mix(sum, (uint64_t)run(prime_start, 1 << 20));
        sum = mix(sum, (uint64_t)run(fibonacci_start, 1 << 20));
    }
    return sum;
}
