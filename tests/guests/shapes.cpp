// C++ in a guest: constructors of statics, virtual functions, templates, new and delete, lambdas.
#include <berm/berm.h>

namespace {

struct Shape {
    virtual ~Shape() = default;
    virtual double area() const = 0;
    virtual const char *name() const = 0;
};

struct Square : Shape {
    explicit Square(double side) : side_(side) {}
    double area() const override { return side_ * side_; }
    const char *name() const override { return "square"; }
    double side_;
};

struct Circle : Shape {
    explicit Circle(double radius) : radius_(radius) {}
    double area() const override { return 3.141592653589793 * radius_ * radius_; }
    const char *name() const override { return "circle"; }
    double radius_;
};

int alive;

template <typename T> class List {
  public:
    ~List() { delete[] items_; }
    void add(T item)
    {
        if (count_ == room_) {
            room_ = room_ ? room_ * 2 : 2;
            T *bigger = new T[room_];
            for (size_t i = 0; i < count_; i++)
                bigger[i] = items_[i];
            delete[] items_;
            items_ = bigger;
        }
        items_[count_++] = item;
    }
    T *begin() { return items_; }
    T *end() { return items_ + count_; }

  private:
    T *items_ = nullptr;
    size_t count_ = 0, room_ = 0;
};

struct alignas(64) Wide {
    int value = 7;
};

struct Counter {
    Counter() { alive += 40; }
    ~Counter() { alive = -1; }
};

Counter first;
Counter second;

int &lazy()
{
    static int value = alive + 2;
    return value;
}

} // namespace

BERM_USAGE("Shapes, in C++.");

BERM_TOOL(areas, "Areas of shapes.",
    required(choice("square|circle|both"), kind, "which"),
    optional(number, size_, "side or radius", 1.5),
    optional(strings, class_, "words that are only shown"))
{
    List<Shape *> shapes;
    if (!berm_is(args->kind, "circle"))
        shapes.add(new Square(args->size_));
    if (!berm_is(args->kind, "square"))
        shapes.add(new Circle(args->size_));
    auto show = [out](const Shape &shape) { berm_printf(out, "%s %.3f\n", shape.name(), shape.area()); };
    for (Shape *shape : shapes) {
        show(*shape);
        delete shape;
    }
    Wide *wide = new Wide;
    berm_printf(out, "statics %d %d, aligned %d %d\n", alive, lazy(), (int)((uintptr_t)wide % 64), wide->value);
    delete wide;
    for (size_t i = 0; i < args->class_.len; i++)
        berm_printf(out, "word %.*s\n", BERM_ARG(args->class_.items[i]));
}
