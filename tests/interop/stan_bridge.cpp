// A Stan model behind BridgeStan's C interface, as far as bridgestan.StanModel and the tests ask for it. BridgeStan's own sources, and those
// of Stan that it needs, are not on the package index; Stan's headers and compiler are, with httpstan. Included after the model's C++ code.
#include <stan/io/array_var_context.hpp>
#include <stan/io/empty_var_context.hpp>
#include <stan/io/json/json_data.hpp>
#include <stan/math/rev/functor/gradient.hpp>
#include <cstring>
#include <sstream>

stan::model::model_base& new_model(stan::io::var_context&, unsigned int, std::ostream*);

namespace {
using Model = stan::model::model_base;
std::string csv_names, csv_unc_names;

std::string joined(const std::vector<std::string>& names) {
  std::string all;
  for (const auto& name : names) all += (all.empty() ? "" : ",") + name;
  return all;
}

std::vector<std::string> names_of(Model* model) {
  std::vector<std::string> names;
  model->constrained_param_names(names, false, false);
  return names;
}

template <typename F>
int guarded(char** error, F f) {
  try {
    f();
    return 0;
  } catch (const std::exception& e) {
    if (error) *error = strdup(e.what());
    return 1;
  }
}
}  // namespace

extern "C" {
int bs_major_version = BS_MAJOR, bs_minor_version = BS_MINOR, bs_patch_version = BS_PATCH;

void* bs_model_construct(const char* text, unsigned int seed, char** error) {
  void* model = nullptr;
  guarded(error, [&] {
    if (text && *text) {
      std::istringstream in(text);
      stan::json::json_data data(in);
      model = &new_model(data, seed, nullptr);
    } else {
      stan::io::empty_var_context data;
      model = &new_model(data, seed, nullptr);
    }
  });
  return model;
}
void bs_model_destruct(Model* model) { delete model; }
void bs_free_error_msg(char* message) { free(message); }
int bs_set_print_callback(void*, char**) { return 0; }
const char* bs_name(Model*) { return "test"; }
const char* bs_model_info(Model*) { return "Stan"; }
int bs_param_num(Model* model, bool, bool) { return names_of(model).size(); }
int bs_param_unc_num(Model* model) { return model->num_params_r(); }
const char* bs_param_names(Model* model, bool, bool) { return (csv_names = joined(names_of(model))).c_str(); }
const char* bs_param_unc_names(Model* model) {
  std::vector<std::string> names;
  model->unconstrained_param_names(names, false, false);
  return (csv_unc_names = joined(names)).c_str();
}

int bs_param_unconstrain(Model* model, const double* theta, double* unc, char** error) {
  return guarded(error, [&] {
    std::vector<std::string> names;
    std::vector<std::vector<size_t>> dims;
    model->get_param_names(names, false, false);
    model->get_dims(dims, false, false);
    Eigen::VectorXd values = Eigen::Map<const Eigen::VectorXd>(theta, names_of(model).size()), out;
    stan::io::array_var_context context(names, values, dims);
    model->transform_inits(context, out, nullptr);
    Eigen::Map<Eigen::VectorXd>(unc, out.size()) = out;
  });
}

int bs_log_density_gradient(Model* model, bool, bool, const double* unc, double* value, double* grad, char** error) {
  return guarded(error, [&] {
    static thread_local stan::math::ChainableStack stack;
    Eigen::VectorXd at = Eigen::Map<const Eigen::VectorXd>(unc, model->num_params_r()), gradient;
    stan::math::gradient([&](auto& x) { return model->log_prob_propto_jacobian(x, nullptr); }, at, *value, gradient);
    Eigen::Map<Eigen::VectorXd>(grad, gradient.size()) = gradient;
  });
}

// Asked for when a model is loaded, not called here.
int bs_param_constrain() { return 1; }
int bs_param_unconstrain_json() { return 1; }
int bs_param_initialize() { return 1; }
int bs_log_density() { return 1; }
int bs_log_density_hessian() { return 1; }
int bs_log_density_hessian_vector_product() { return 1; }
}
