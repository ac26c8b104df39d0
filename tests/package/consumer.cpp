/* The same from C++17, which has no designated initialisers. */
#include <gpu_mha/gpu_mha.h>

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

int main()
{
    std::vector<float> q(2 * 3 * 4), k(2 * 5 * 4), v(2 * 5 * 4), o(2 * 3 * 4);
    for (std::size_t i = 0; i < v.size(); i++)
        v[i] = static_cast<float>(i / 4 % 5);

    gpu_mha_desc desc{};
    desc.B = 1;
    desc.H = desc.HKV = 2;
    desc.NQ = 3;
    desc.NK = 5;
    desc.DK = desc.DV = 4;
    gpu_mha_arrays arrays{};
    arrays.query = q.data();
    arrays.key = k.data();
    arrays.value = v.data();
    arrays.output = o.data();
    if (gpu_mha(nullptr, &desc, &arrays) != GPU_MHA_OK) {
        std::fprintf(stderr, "gpu_mha: %s\n", gpu_mha_last_error());
        return 1;
    }
    for (float x : o) {
        if (!(std::fabs(x - 2.0f) < 1e-4f)) {
            std::fprintf(stderr, "an output is %g, not 2\n", static_cast<double>(x));
            return 1;
        }
    }
    if (gpu_mha_version() != std::string(GPU_MHA_VERSION_STRING)) {
        std::fprintf(stderr, "header %s, library %s\n", GPU_MHA_VERSION_STRING, gpu_mha_version());
        return 1;
    }
    std::printf("%s\n", gpu_mha_version());
    return 0;
}
